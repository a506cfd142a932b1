#!/bin/busybox sh
# First process of the lab's virtual machine. Loads the modules, mounts the host's files read-only, runs the
# agent in them, powers off. @AGENT@, @MODULES@ and @TIMEOUT_S@ are filled in by qemu.rs.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
fail() { echo "ayatori-init: $*"; $b sleep 1; $b poweroff -f; }
for m in @MODULES@; do
	$b insmod "/mod/$m.ko" || fail "cannot load kernel module $m"
done
# Whatever becomes of us, the machine does not outlive its time.
( $b sleep @TIMEOUT_S@; echo "ayatori-init: time is over"; $b poweroff -f ) &
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose hostroot /root ||
	fail "cannot mount the host's files"
# The program that started the machine may lie below /tmp, which is hidden next: its folder comes separately.
for d in run tmp var/tmp; do
	if [ -d /root/$d ]; then $b mount -t tmpfs -o mode=1777 tmpfs /root/$d; fi
done
$b mkdir -p /root/run/ayatori /root/run/netns /dev/pts /dev/shm
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose agent /root/run/ayatori ||
	fail "cannot mount the agent's folder"
$b mount -t devpts -o ptmxmode=666 devpts /dev/pts
$b mount -t tmpfs -o mode=1777 tmpfs /dev/shm
for d in proc sys dev; do $b mount --move /$d /root/$d || fail "the host has no /$d"; done
$b ln -sf pts/ptmx /root/dev/ptmx 2>/dev/null
$b ip link set lo up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8
$b chroot /root @AGENT@ || echo "ayatori-init: the agent ended with $?"
$b poweroff -f
