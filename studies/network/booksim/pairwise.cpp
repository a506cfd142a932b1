// One-sided pairwise exchange on a torus of unequal extents, run by BookSim2's routers (../pairwise.py).
//
//     pairwise CONFIG... [KEY=VALUE...]
//
// BookSim2 (https://github.com/booksim/booksim2) gives the routers, channels and the clock. Its own torus has
// one extent for all dimensions and its traffic managers run no program, so this file adds a network, two
// routing functions and a traffic manager, in the place of its main.cpp. Keys beside BookSim2's:
//
//     extents        {4,2,8}
//     dateline       entry: a packet's class is 1 all along a ring whose wrap-around link it will cross;
//                    wrap: 1 on that link and beyond
//     packets        packets of each message, all of packet_size flits
//     gap            silence of a node after each packet, in packet times
//     set_up         cycles from the last flit of a message to the first of the next
//     spread         starts are drawn below so many cycles
//     inject         message: a node's messages take the channels in turn; packet: its packets do, whichever is
//                    free; zero: all go into channel 0
//     head_room      flits that must be free ahead before a packet gets a channel (vc_busy_when_full = 1)
//
// As ../../../crates/sim does it: in a dimension of two switches there is one link, without wrap-around; at half
// a ring, packets from even coordinates go up and from odd ones down.

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "booksim.hpp"
#include "booksim_config.hpp"
#include "injection.hpp"
#include "network.hpp"
#include "random_utils.hpp"
#include "routefunc.hpp"
#include "traffic.hpp"
#include "trafficmanager.hpp"

// What main.cpp defines for the rest of BookSim2.
TrafficManager * trafficManager = NULL;
int GetSimTime() { return trafficManager->getTime(); }
class Stats;
Stats * GetStats(const std::string & name) { return trafficManager->getStats(name); }
bool gPrintActivity = false;
int gK, gN, gC, gNodes;
bool gTrace = false;
ostream * gWatchOut = NULL;

// Read by the copy of iq_router.cpp that the Makefile makes.
int gHeadRoom = 1;

static vector<int> gExtents;
// Where each node injects its next packet; -1: into any channel.
static vector<int> gInjectChannel;

static int Coordinate(int node, int dim) {
  for (int d = 0; d < dim; ++d) node /= gExtents[d];
  return node % gExtents[dim];
}

static bool Wraps(int dim) { return gExtents[dim] > 2; }

class MixedTorus : public Network {
  int _Channel(int node, int dim, bool up) const {
    return (node * (int)gExtents.size() + dim) * 2 + (up ? 0 : 1);
  }

  // The neighbour, or -1 at the end of a dimension that does not wrap around.
  int _Neighbour(int node, int dim, bool up) const {
    int stride = 1;
    for (int d = 0; d < dim; ++d) stride *= gExtents[d];
    int const extent = gExtents[dim], here = Coordinate(node, dim);
    int const there = (here + (up ? 1 : extent - 1)) % extent;
    bool const crosses = up ? there < here : there > here;
    return (extent == 1 || (crosses && !Wraps(dim))) ? -1 : node + (there - here) * stride;
  }

  void _ComputeSize(const Configuration &) {
    _size = 1;
    for (size_t d = 0; d < gExtents.size(); ++d) _size *= gExtents[d];
    _nodes = _size;
    _channels = 2 * (int)gExtents.size() * _size;
  }

  // Port 2 d leads up dimension d, port 2 d + 1 down, and the last one to the node; an input port has the
  // number of the output port that is its opposite. Channels that no router has are never used.
  void _BuildNet(const Configuration & config) {
    int const dims = (int)gExtents.size();
    for (int node = 0; node < _size; ++node) {
      ostringstream name;
      name << "router_" << node;
      int ports = 1;
      for (int d = 0; d < dims; ++d) ports += (_Neighbour(node, d, true) >= 0) + (_Neighbour(node, d, false) >= 0);
      Router * const router = Router::NewRouter(config, this, name.str(), node, ports, ports);
      _routers[node] = router;
      _timed_modules.push_back(router);
      for (int port = 0; port < 2 * dims; ++port) {
        int const dim = port / 2;
        bool const up = port % 2 == 0;
        int const from = _Neighbour(node, dim, up);
        if (from < 0) continue;
        int const in = _Channel(from, dim, !up), out = _Channel(node, dim, up);
        router->AddInputChannel(_chan[in], _chan_cred[in]);
        router->AddOutputChannel(_chan[out], _chan_cred[out]);
        _chan[out]->SetLatency(1);
        _chan_cred[out]->SetLatency(1);
      }
      router->AddInputChannel(_inject[node], _inject_cred[node]);
      router->AddOutputChannel(_eject[node], _eject_cred[node]);
      _inject[node]->SetLatency(1);
      _eject[node]->SetLatency(1);
    }
  }

public:
  MixedTorus(const Configuration & config, const string & name) : Network(config, name) {
    _ComputeSize(config);
    _Alloc();
    _BuildNet(config);
  }

  // The number of a port among those that a router has.
  int Port(int node, int dim, bool up) const {
    int port = 0;
    for (int p = 0; p < 2 * dim + (up ? 0 : 1); ++p) port += _Neighbour(node, p / 2, p % 2 == 0) >= 0;
    return port;
  }

  int EjectPort(int node) const { return Port(node, (int)gExtents.size(), true); }
};

static MixedTorus * gTorus = NULL;

// Dimension order. `f->ph` is 2 dim + class on the way along a dimension: whether it has begun.
static void Route(const Router * r, const Flit * f, OutputSet * outputs, bool inject, bool on_entry) {
  outputs->Clear();
  if (inject) {
    int const channel = gInjectChannel[f->src];
    outputs->AddRange(-1, channel < 0 ? 0 : channel, channel < 0 ? gNumVCs - 1 : channel);
    return;
  }
  int const here = r->GetID();
  int dim = 0;
  while (dim < (int)gExtents.size() && Coordinate(here, dim) == Coordinate(f->dest, dim)) ++dim;
  if (dim == (int)gExtents.size()) {
    outputs->AddRange(gTorus->EjectPort(here), 0, gNumVCs - 1);
    return;
  }
  int const extent = gExtents[dim], at = Coordinate(here, dim), to = Coordinate(f->dest, dim);
  int const distance_up = (to - at + extent) % extent, distance_down = extent - distance_up;
  bool up = to > at;
  int vc = 0;
  if (Wraps(dim)) {
    up = distance_up < distance_down + (at % 2 == 0 ? 1 : 0);
    bool const begun = f->ph >= 0 && f->ph / 2 == dim;
    int const before = up ? extent - 1 - at : at, distance = up ? distance_up : distance_down;
    if (on_entry) {
      vc = begun ? f->ph % 2 : before < distance;
    } else {
      vc = before == 0 || (begun && f->ph % 2 == 1);
    }
    f->ph = 2 * dim + vc;
  }
  int const per_class = gNumVCs / 2;
  outputs->AddRange(gTorus->Port(here, dim, up), vc * per_class, vc * per_class + per_class - 1);
}

static void RouteOnEntry(const Router * r, const Flit * f, int, OutputSet * outputs, bool inject) {
  Route(r, f, outputs, inject, true);
}

static void RouteAtWrap(const Router * r, const Flit * f, int, OutputSet * outputs, bool inject) {
  Route(r, f, outputs, inject, false);
}

// A put to rank XOR step, for each step from 1 on.
class Pairwise : public TrafficManager {
  // Where each node is in its program.
  struct Program {
    int step, packets_left, ready, end_of_packet;
    bool in_packet;
  };

  class Partner : public TrafficPattern {
    vector<Program> const & _programs;
  public:
    Partner(int nodes, vector<Program> const & programs) : TrafficPattern(nodes), _programs(programs) {}
    int dest(int source) { return source ^ _programs[source].step; }
  };

  vector<Program> _programs;
  int _length, _packets, _gap, _set_up;
  string _inject_as;

  // Called in each cycle in which the node has no flit left to send. Packets follow each other without a
  // cycle in between.
  int _IssuePacket(int source, int) {
    Program & program = _programs[source];
    if (program.in_packet) {
      program.in_packet = false;
      program.ready = _time + _gap;
      if (--program.packets_left == 0) {
        program.ready = _time + max(_gap, _set_up);
        program.packets_left = _packets;
        ++program.step;
      }
    }
    if (program.step == _nodes || _time < program.ready) return 0;
    BufferState const & ahead = *_buf_states[source][0];
    int channel = -1;
    if (_inject_as == "packet") {
      bool room = false;
      for (int vc = 0; vc < _vcs; ++vc) room |= ahead.AvailableFor(vc) >= gHeadRoom;
      if (!room) return 0;
      int const first = (_last_vc[source][0][0] + 1) % _vcs;
      for (int i = 0; i < _vcs && channel < 0; ++i) {
        int const vc = (first + i) % _vcs;
        if (ahead.AvailableFor(vc) >= gHeadRoom) channel = vc;
      }
    } else {
      channel = _inject_as == "zero" ? 0 : program.step % _vcs;
      if (ahead.AvailableFor(channel) < gHeadRoom) return 0;
    }
    gInjectChannel[source] = channel;
    program.in_packet = true;
    return 1;
  }

public:
  Pairwise(const Configuration & config, const vector<Network *> & net) : TrafficManager(config, net) {
    _length = config.GetInt("packet_size");
    _packets = config.GetInt("packets");
    _gap = (int)lround(config.GetFloat("gap") * _length);
    _set_up = config.GetInt("set_up");
    _inject_as = config.GetStr("inject");
    _programs.resize(_nodes);
    gInjectChannel.assign(_nodes, -1);
    for (int node = 0; node < _nodes; ++node) {
      int const start = (int)(RandomFloat() * config.GetFloat("spread"));
      _programs[node] = Program{1, _packets, start + _set_up, 0, false};
    }
    delete _traffic_pattern[0];
    _traffic_pattern[0] = new Partner(_nodes, _programs);
  }

  // The cycle in which the last packet has arrived.
  int RunProgram() {
    bool over = false;
    while (!over) {
      _Step();
      over = _total_in_flight_flits[0].empty();
      for (int node = 0; node < _nodes && over; ++node) over = _programs[node].step == _nodes;
    }
    return _time;
  }
};

int main(int argc, char ** argv) {
  // What a configuration may have beside BookSim2's own keys.
  struct Config : public BookSimConfig {
    Config() {
      AddStrField("extents", "{4,2,8}");
      AddStrField("dateline", "entry");
      AddStrField("inject", "message");
      _int_map["packets"] = 1;
      _int_map["set_up"] = 0;
      _int_map["head_room"] = 1;
      _float_map["gap"] = 0.0;
      _float_map["spread"] = 0.0;
    }
  } config;
  if (!ParseArgs(&config, argc, argv)) {
    cerr << "usage: pairwise CONFIG... [KEY=VALUE...]" << endl;
    return 2;
  }
  InitializeRoutingMap(config);
  gExtents = config.GetIntArray("extents");
  gHeadRoom = config.GetInt("head_room");
  gRoutingFunctionMap["entry_mixed"] = &RouteOnEntry;
  gRoutingFunctionMap["wrap_mixed"] = &RouteAtWrap;
  config.Assign("topology", string("mixed"));
  config.Assign("routing_function", config.GetStr("dateline"));
  RandomSeed(config.GetInt("seed"));
  gTorus = new MixedTorus(config, "network");
  vector<Network *> net(1, gTorus);
  Pairwise * const program = new Pairwise(config, net);
  trafficManager = program;
  cout << program->RunProgram() << endl;
  return 0;
}
