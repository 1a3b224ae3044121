#!/bin/sh
# Installs or upgrades Staffetta from this folder, on Debian or Raspberry Pi OS, without a network.
#
#     sh install.sh [--online]      as root
#
# What is in /etc/staffetta already stays, but for the seed, which is replaced, and files that are
# missing, which are added from `site`. The relay runs in the air-gap profile, in which it cannot
# open a connection, unless --online is given or its configuration has an upstream.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
etc=/etc/staffetta
units=/etc/systemd/system

die() {
    echo "install: $*" >&2
    exit 1
}

profile=air-gap
case ${1:-} in
    '') ;;
    --online) profile=online ;;
    *) die "unknown: $1; there is --online" ;;
esac
[ "$(id -u)" = 0 ] || die "only root may install: sudo sh install.sh"
command -v dpkg >/dev/null || die "this is no Debian: copy the binary and the units by hand"
[ -d /run/systemd/system ] || die "systemd does not run here"
(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS) \
    || die "this stick is damaged or was changed: make it anew"

# Raspberry Pi OS calls ARMv6 armhf as well, and armhf may run on a 64-bit kernel.
case $(dpkg --print-architecture)/$(uname -m) in
    arm64/*) target=aarch64-unknown-linux-musl ;;
    armhf/armv6*) target=arm-unknown-linux-musleabihf ;;
    armhf/*) target=armv7-unknown-linux-musleabihf ;;
    amd64/*) target=x86_64-unknown-linux-musl ;;
    *) die "no package for $(dpkg --print-architecture)" ;;
esac
[ -d "$here/packages/$target" ] || die "no package for $target on this stick"

# A file of the relay's group, whole or not at all: FAT knows no modes, and power may fail.
place() {
    install -o root -g staffetta -m 0640 "$1" "$2.new"
    sync "$2.new"
    mv -f "$2.new" "$2"
}

echo "installing $(basename "$here/packages/$target"/*.deb)"
dpkg --install "$here/packages/$target"/*.deb >/dev/null

for file in "$here"/site/*; do
    name=$(basename "$file")
    [ "$name" = staffetta.json ] || [ "$name" = seed.json ] || [ -e "$etc/$name" ] \
        || place "$file" "$etc/$name"
done
if [ -e "$here/site/seed.json" ]; then
    place "$here/site/seed.json" "$etc/seed.json"
fi
# Last, because with it the unit may start.
if ! [ -e $etc/staffetta.json ] && [ -e "$here/site/staffetta.json" ]; then
    place "$here/site/staffetta.json" $etc/staffetta.json
fi
[ -e $etc/staffetta.json ] || die "no configuration: neither on the stick nor in $etc"

staffetta check --config $etc/staffetta.json || die "mend $etc, then run this again"

mkdir -p $units/staffetta.service.d
staffetta unit --config $etc/staffetta.json >$units/staffetta.service.d/limits.conf
if grep -q '"upstream"' $etc/staffetta.json; then
    profile=online
fi
if [ $profile = air-gap ]; then
    cp -r /usr/share/staffetta/air-gap/. $units/
else
    rm -f $units/staffetta.service.d/air-gap.conf $units/staffetta.socket.d/air-gap.conf
fi
systemctl daemon-reload
if [ $profile = air-gap ]; then
    systemctl stop staffetta.service
    systemctl enable --quiet --now staffetta.socket
else
    systemctl disable --quiet --now staffetta.socket
fi
systemctl enable --quiet staffetta.service
systemctl restart staffetta.service || {
    systemctl --no-pager --lines=20 status staffetta.service >&2
    die "it does not start"
}

echo
echo "active, in the $profile profile:"
staffetta status || true
address=$(hostname -I 2>/dev/null | cut -d ' ' -f 1)
cat <<LINES

Point an SDK at it: give its process
    HTTPS_PROXY=http://${address:-ADDRESS}:7070
    REQUESTS_CA_BUNDLE=bundle.crt      (Python; NODE_EXTRA_CA_CERTS=ca.crt for Node)
with the files from the stick's \`site\`, and as its API key the content of $etc/client.key.
README.md on the stick has every SDK.
LINES
