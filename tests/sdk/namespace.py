"""Holds a network of its own with a hosts file of its own, for as long as its input is open.

Run inside `unshare --net --mount`. The kernel closes the input when the test program ends, however
it ends; then this process ends, and with the last process inside the namespaces are gone.
"""

import fcntl
import socket
import struct
import subprocess
import sys

SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def main(hosts):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
