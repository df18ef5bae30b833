"""Network interfaces and namespaces of Linux, by system calls: needs no `ip` command, but root."""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_CLONE_NEWUTS, _CLONE_NEWNET = 0x04000000, 0x40000000
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C
_SIOCSIFMTU, _SIOCSIFHWADDR, _ARPHRD_ETHER = 0x8922, 0x8924, 1


def enter_new_host(name):
    """Give the calling thread a network and a host name of its own.

    The namespaces, whose descriptors it returns, live as long as these are open or a process is in
    them.
    """
    _call("unshare", _CLONE_NEWNET | _CLONE_NEWUTS)
    socket.sethostname(name)
    set_up("lo")
    return open_namespaces()


def open_namespaces():
    """Descriptors of the calling thread's namespaces of network and name."""
    return (
        os.open("/proc/thread-self/ns/net", os.O_RDONLY),
        os.open("/proc/thread-self/ns/uts", os.O_RDONLY),
    )


def enter(namespaces):
    """Move the calling thread into the namespaces of these descriptors."""
    for descriptor in namespaces:
        _call("setns", descriptor, 0)


def open_tap(name, *, mac, address, mask, mtu):
    """A new Ethernet interface of the present network, whose other end is a descriptor.

    Reading gives one frame that the host sends, writing brings it one. The interface goes when
    the descriptor is closed. Its name has at most 15 characters, its MAC 6 bytes.
    """
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        flags = struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI)
        fcntl.ioctl(tap, _TUNSETIFF, flags)
        # Neighbor discovery of IPv6 would only be noise.
        quiet = Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6")
        if quiet.exists():
            quiet.write_text("1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            hardware = struct.pack("16sH6s", name.encode(), _ARPHRD_ETHER, mac)
            fcntl.ioctl(control, _SIOCSIFHWADDR, hardware.ljust(40, b"\0"))
            fcntl.ioctl(control, _SIOCSIFMTU, struct.pack("16si20x", name.encode(), mtu))
            for request, value in ((_SIOCSIFADDR, address), (_SIOCSIFNETMASK, mask)):
                packed = socket.inet_aton(value)
                record = struct.pack("16sHH4s16x", name.encode(), socket.AF_INET, 0, packed)
                fcntl.ioctl(control, request, record)
        set_up(name)
    except BaseException:
        os.close(tap)
        raise
    return tap


def set_up(name):
    """Switch an interface of the present network on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        record = struct.pack("16sH22x", name.encode(), 0)
        (flags,) = struct.unpack("16xH22x", fcntl.ioctl(control, _SIOCGIFFLAGS, record))
        record = struct.pack("16sH22x", name.encode(), flags | _IFF_UP)
        fcntl.ioctl(control, _SIOCSIFFLAGS, record)


def _call(name, *arguments):
    # Python 3.11 has no os.unshare and os.setns.
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main():
    """Try whether hosts can be made here; ends with the reason if not."""
    try:
        enter_new_host("trial")
        address, mask = "198.18.0.1", "255.255.255.0"
        mac = bytes.fromhex("025357000001")
        os.close(open_tap("eth0", mac=mac, address=address, mask=mask, mtu=1500))
    except OSError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
