//! Machine description, topologies, routing, VLAN planning (see ARCHITECTURE.md).
