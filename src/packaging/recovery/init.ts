/** The first process of the recovery medium, and what it shows. Everything lies in memory: the disks are left alone. */

/** Loads a driver for each device that the kernel has found, and takes an address on every network card with a cable. */
export const INIT = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts && mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs run /run
for round in 1 2; do
  find /sys/devices -name modalias -exec cat {} + 2>/dev/null | sort -u | xargs -r modprobe -abq 2>/dev/null
  sleep 1
done
modprobe -abq sd_mod sr_mod usb_storage uas virtio_blk virtio_net nvme ahci ext4 vfat 2>/dev/null
ip link set lo up
for card in /sys/class/net/*; do
  name=$(basename "$card")
  [ "$name" = lo ] && continue
  ip link set "$name" up
  busybox udhcpc -i "$name" -b -q -t 5 -T 2 -s /usr/local/sbin/lease > /dev/null 2>&1
done
cat /etc/motd
while :; do setsid -c sh -l < /dev/console > /dev/console 2>&1; done
`;

/** What busybox calls with an address. */
export const LEASE = `#!/bin/sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address replace "$ip/\${mask:-24}" dev "$interface"
[ -n "$router" ] && ip route replace default via "\${router%% *}" dev "$interface"
: > /etc/resolv.conf
for server in $dns; do echo "nameserver $server" >> /etc/resolv.conf; done
`;

export const MOTD = `
Muster recovery medium. Nothing on the disks of this machine was changed.

  lsblk                      the disks
  ip address                 the network (static: ip address add ADDRESS/24 dev CARD; ip route add default via ROUTER)
  muster-agent recover --server https://SERVER --token - --target /dev/DISK

The token is asked for. To go on after a restart, mount a USB disk and add --state FOLDER.

`;

/** Shown on the screen and on the first serial port. */
export const GRUB = `set timeout=5
insmod all_video
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
menuentry "Muster recovery" {
  linux /boot/vmlinuz console=ttyS0,115200 console=tty0 quiet
  initrd /boot/initrd.zst
}
menuentry "Muster recovery (serial console)" {
  linux /boot/vmlinuz console=tty0 console=ttyS0,115200 quiet
  initrd /boot/initrd.zst
}
`;
