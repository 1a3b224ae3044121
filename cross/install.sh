#!/bin/sh
# Installs or upgrades Staffetta from this folder, on Debian or Raspberry Pi OS, without a network.
#
#     sh install.sh [--online | --air-gap]      as root
#
# What is in /etc/staffetta already stays, but for the seed, which is replaced, and files that are
# missing, which are added from `site`. The first time the configuration decides on the profile:
# in the air gap the relay cannot open a connection. After that the profile stays, unless another
# one is asked for.
#
# Everything is judged before anything is changed, with the relay out of the package. Clients are
# interrupted once by a new package or new limits, and not at all by a new seed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
etc=/etc/staffetta
credentials=/etc/credstore
units=/etc/systemd/system
shipped=usr/lib/systemd/system
# What install.sh makes in $units.
limits=staffetta.service.d/limits.conf
air_gap=staffetta.service.d/air-gap.conf
listen=staffetta.socket.d/listen.conf
drop_ins="$limits $air_gap staffetta.socket.d/air-gap.conf $listen"
untouched="; nothing was changed"
restart=no
new_socket=no
left_air_gap=no

die() {
    echo "install: $*$untouched" >&2
    exit 1
}

asked=
case $#/${1:-} in
    0/) ;;
    1/--online) asked=online ;;
    1/--air-gap) asked=air-gap ;;
    *) die "unknown: $*; there is --online or --air-gap" ;;
esac

look_at_machine() {
    [ "$(id -u)" = 0 ] || die "only root may install: sudo sh install.sh"
    command -v dpkg >/dev/null || die "this is no Debian; README.md says what to do by hand"
    [ -d /run/systemd/system ] || die "systemd does not run here"
    version=$(systemctl --version | sed -n '1s/[^0-9]*\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 251 ] || echo "systemd $version is older than 251, which Debian 12 has:" \
        "without credentials, and without parts of the sandbox"
    (cd "$here" && sha256sum --check --quiet --strict SHA256SUMS) \
        || die "this stick is damaged or was changed: make it anew"
}

# Raspberry Pi OS calls ARMv6 armhf as well, and armhf may run on a 64-bit kernel.
find_package() {
    case $(dpkg --print-architecture)/$(uname -m) in
        arm64/*) target=aarch64-unknown-linux-musl ;;
        armhf/armv6*) target=arm-unknown-linux-musleabihf ;;
        armhf/*) target=armv7-unknown-linux-musleabihf ;;
        amd64/*) target=x86_64-unknown-linux-musl ;;
        *) die "no package for $(dpkg --print-architecture)" ;;
    esac
    package=$(find "$here/packages/$target" -name '*.deb' 2>/dev/null | head -n 1)
    [ -n "$package" ] || die "no package for $target on this stick"
}

# Below /var/lib, where dpkg has its scripts: elsewhere a machine may forbid programs to run.
unpack() {
    rm -rf /var/lib/staffetta-install.*
    room=$(mktemp -d /var/lib/staffetta-install.XXXXXX) || die "nothing can be written to /var/lib"
    trap 'rm -rf "$room"' EXIT
    trap 'exit 1' HUP INT TERM
    dpkg-deb --extract "$package" "$room/package" || die "the package cannot be unpacked"
    relay=$room/package/usr/bin/staffetta
    "$relay" --version >/dev/null || die "the relay of $target does not run on this machine"
}

is_of_another_certificate() {
    case $1 in
        relay.key | ca.crt | bundle.crt) ;;
        *) return 1 ;;
    esac
    [ -e $etc/relay.crt ] && ! cmp -s "$here/site/relay.crt" $etc/relay.crt
}

# Copies what is to be placed in /etc/staffetta to $room/new, and says what is not.
choose_files() {
    for file in "$here"/site/*; do
        name=$(basename "$file")
        if [ -d "$file" ]; then
            echo "left out site/$name: only files are taken"
        elif [ ! -e "$file" ] || cmp -s "$file" "$etc/$name"; then
            :
        elif [ -e "$etc/$name" ] && [ "$name" != seed.json ]; then
            echo "kept $etc/$name, which is not the stick's"
        elif is_of_another_certificate "$name"; then
            echo "left out site/$name: it belongs to another certificate than $etc/relay.crt"
        else
            # FAT knows no modes.
            install -m 0640 "$file" "$room/new/$name"
        fi
    done
}

# Makes $room/etc what /etc/staffetta will be, and $config its configuration.
preview() {
    mkdir "$room/new" "$room/etc"
    choose_files
    for file in "$etc"/* "$room"/new/*; do
        if [ -e "$file" ]; then
            ln -sfn "$file" "$room/etc/"
        fi
    done
    config=$room/etc/staffetta.json
    [ -e "$config" ] || die "no configuration: neither on the stick nor in $etc"
    sed "s|\"$etc/|\"$room/etc/|g" "$config" >"$room/config"
    mv "$room/config" "$config"
}

# The unit hands the relay what is in /etc/credstore. What is not there yet hinders nobody from
# installing: a key that nobody knows stands in for it.
lend_credentials() {
    mkdir "$room/credentials"
    for file in "$credentials"/*; do
        if [ -f "$file" ]; then
            ln -s "$file" "$room/credentials/"
        fi
    done
    for name in staffetta.client-key staffetta.api-key staffetta.admin-token; do
        if [ ! -e "$room/credentials/$name" ]; then
            (umask 077 && "$relay" key new >"$room/credentials/$name")
            if grep -q "CREDENTIALS_DIRECTORY}/$name\"" "$config"; then
                echo "there is no $credentials/$name yet; restart the relay once there is"
            fi
        fi
    done
    export CREDENTIALS_DIRECTORY="$room/credentials"
}

# What the relay says of the preview, in the names that everything will have.
in_place() {
    sed "s|$room/etc|$etc|g; s|$room/credentials|$credentials|g" "$room/said"
}

judge() {
    "$relay" check --config "$config" >"$room/said" 2>&1 || verdict=wrong
    in_place
    [ -z "${verdict:-}" ] || die "mend it on the stick or in $etc, then run this again"
}

ask_unit() {
    "$relay" unit --config "$config" "$@" >"$room/said" || die "the relay cannot say: unit $*"
    in_place
}

choose_profile() {
    fitting=$(ask_unit --profile)
    state=$(dpkg-query --show --showformat '${db:Status-Status}' staffetta 2>/dev/null || true)
    if [ -n "$asked" ]; then
        profile=$asked reason="as asked"
    elif [ ! -e $etc/staffetta.json ] || [ "${state:-not-installed}" = not-installed ]; then
        profile=$fitting reason="by its configuration"
    elif [ -e $units/$air_gap ]; then
        profile=air-gap reason="as before"
    else
        profile=online reason="as before"
    fi
}

# Makes $room/units what there will be in /etc/systemd/system.
make_drop_ins() {
    mkdir -p "$room/units/staffetta.service.d" "$room/units/staffetta.socket.d"
    ask_unit >"$room/units/$limits"
    if [ $profile = air-gap ]; then
        cp -r "$room/package/usr/share/staffetta/air-gap/." "$room/units/"
        ask_unit --socket >"$room/units/$listen"
    fi
}

is_installed() {
    version=$(dpkg-deb --field "$package" Version)
    [ "$state $(dpkg-query --show --showformat '${Version}' staffetta 2>/dev/null)" \
        = "installed $version" ] || return 1
    for file in "$room"/package/usr/bin/* "$room/package/$shipped"/*; do
        cmp -s "$file" "${file#"$room/package"}" || return 1
    done
}

install_package() {
    if is_installed; then
        return
    fi
    echo "installing $(basename "$package")"
    cmp -s "$room/package/$shipped/staffetta.socket" /$shipped/staffetta.socket || new_socket=yes
    restart=yes
    untouched=
    # The package need not restart the relay for files that are not in place yet.
    STAFFETTA_RESTART=no dpkg --install "$package" >/dev/null \
        || die "the package cannot be installed; mend what is said above, then run this again"
}

place_drop_ins() {
    for name in $drop_ins; do
        if cmp -s "$room/units/$name" "$units/$name"; then
            continue
        elif [ -e "$room/units/$name" ]; then
            install -D -m 0644 "$room/units/$name" "$units/$name"
        elif [ -e "$units/$name" ]; then
            rm "$units/$name"
            [ "$name" != $air_gap ] || left_air_gap=yes
        else
            continue
        fi
        restart=yes
        case $name in staffetta.socket.d/*) new_socket=yes ;; esac
    done
}

# A file of the relay's group, whole or not at all: power may fail.
place() {
    install -o root -g staffetta -m 0640 "$1" "$2.new"
    sync "$2.new"
    mv -f "$2.new" "$2"
}

# The configuration last, because with it the unit may start.
place_files() {
    for file in "$room"/new/*; do
        name=$(basename "$file")
        if [ -e "$file" ] && [ "$name" != staffetta.json ]; then
            place "$file" "$etc/$name"
        fi
    done
    if [ -e "$room/new/staffetta.json" ]; then
        place "$room/new/staffetta.json" $etc/staffetta.json
    fi
}

does_not_start() {
    journalctl --no-pager --quiet --lines=20 --output=cat --unit="$1" >&2 || true
    die "it does not start; the end of its journal is above"
}

start_socket() {
    if [ $new_socket = no ] && systemctl --quiet is-active staffetta.socket; then
        return
    fi
    # The relay has the port, or the socket has it elsewhere.
    systemctl stop staffetta.socket staffetta.service || true
    systemctl start staffetta.socket || does_not_start staffetta.socket
}

start() {
    systemctl daemon-reload || die "systemd does not read its units again. If /run is too small:" \
        "mount -o remount,size=24M /run, then run this again"
    if [ $profile = air-gap ]; then
        start_socket
        systemctl enable --quiet staffetta.socket || die "it will not start with the machine"
    elif [ $left_air_gap = yes ]; then
        systemctl stop staffetta.socket staffetta.service || true
        systemctl disable --quiet staffetta.socket || true
    fi
    systemctl restart staffetta.service || does_not_start staffetta.service
    systemctl enable --quiet staffetta.service || die "it will not start with the machine"
}

reload() {
    staffetta reload || die "the relay refused that, and serves what it served"
}

# Where SDKs reach it: the first address of `listen` that is one of TCP.
sdk_address() {
    address=$(ask_unit --socket | sed -n 's/%%.*//; s/^ListenStream=\([^/]..*\)/\1/p' | head -n 1)
    host=${address%:*}
    case $host in
        "$address" | '[::]' | 0.0.0.0)
            host=$(hostname -I 2>/dev/null | cut -d ' ' -f 1)
            case $host in *:*) host="[$host]" ;; esac
            ;;
    esac
    echo "${host:-ADDRESS}:${address##*:}"
}

tell() {
    echo
    echo "active, in the $profile profile, $reason:"
    staffetta status || true
    case $profile/$fitting in
        air-gap/online)
            echo "It connects to nobody in this profile, though its configuration wants it to:"
            echo "sh install.sh --online"
            ;;
        online/air-gap)
            echo "By its configuration it connects to nobody: sh install.sh --air-gap"
            ;;
    esac
    cat <<LINES

Point an SDK at it. Python: give the process
    HTTPS_PROXY=http://$(sdk_address)
    REQUESTS_CA_BUNDLE=bundle.crt
with a copy of $etc/bundle.crt; its API key is the content of $etc/client.key.
README.md on the stick has the other SDKs.
LINES
}

look_at_machine
find_package
unpack
preview
lend_credentials
judge
choose_profile
make_drop_ins

install_package
untouched=
place_drop_ins
place_files
if [ $restart = yes ] || ! systemctl --quiet is-active staffetta.service; then
    start
else
    reload
fi
tell
