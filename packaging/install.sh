#!/bin/sh
# Installs the program of Turnwire for this user, or for all if root runs it:
#
#   curl -fsSL https://…/install.sh | sh
#
# TURNWIRE_BASE_URL      where the files of the release are
# TURNWIRE_INSTALL_DIR   where the program goes (default: ~/.local/bin, for root /usr/local/bin)
#
# It downloads one archive, compares its SHA-256 with the list of the release, and copies one file. All of it is
# in functions, so that half a script does nothing.
set -eu

BASE_URL="${TURNWIRE_BASE_URL:-@BASE_URL@}"

give_up() {
    echo "install: $1" >&2
    exit 1
}

# download URL FILE
download() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --output-document="$2" "$1"
    else
        give_up "there is neither curl nor wget"
    fi || give_up "$1 cannot be downloaded"
}

sha256_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        give_up "there is neither sha256sum nor shasum, so nothing can be verified"
    fi
}

# The line of the list for this machine: the program that needs no library, if there is one.
line_for_here() {
    case "$(uname -s)" in
        Linux) ;;
        *) give_up "there are packages for Linux only; elsewhere: cargo install turnwire-cli" ;;
    esac
    machine="$(uname -m)"
    case "$machine" in
        amd64) machine=x86_64 ;;
        arm64) machine=aarch64 ;;
    esac
    for libc in musl gnu; do
        line="$(grep -E "^[0-9a-f]{64}  turnwire-[0-9][^/]*-$machine-unknown-linux-$libc\.tar\.gz$" "$1")" && {
            echo "$line"
            return
        }
    done
    give_up "the release has nothing for $machine"
}

main() {
    case "$BASE_URL" in
        "" | @*) give_up "TURNWIRE_BASE_URL must say where the files of the release are" ;;
    esac
    if [ -n "${TURNWIRE_INSTALL_DIR:-}" ]; then
        target="$TURNWIRE_INSTALL_DIR"
    elif [ "$(id -u)" = 0 ]; then
        target=/usr/local/bin
    else
        target="$HOME/.local/bin"
    fi
    folder="$(mktemp -d)"
    trap 'rm -rf "$folder"' EXIT
    download "$BASE_URL/SHA256SUMS" "$folder/SHA256SUMS"
    line="$(line_for_here "$folder/SHA256SUMS")"
    archive="${line#*  }"
    download "$BASE_URL/$archive" "$folder/$archive"
    [ "$(sha256_of "$folder/$archive")" = "${line%%  *}" ] ||
        give_up "$archive is not what the release lists: its SHA-256 differs"
    tar -xzf "$folder/$archive" -C "$folder"
    mkdir -p "$target"
    # Beside the old one first: a program that runs is replaced, never overwritten.
    cp "$folder/${archive%.tar.gz}/turnwire" "$target/.turnwire.new"
    chmod 755 "$target/.turnwire.new"
    mv "$target/.turnwire.new" "$target/turnwire"
    echo "$("$target/turnwire" --version) is in $target"
    case ":$PATH:" in
        *":$target:"*) echo "Try it: turnwire serve --demo" ;;
        *) echo "Try it: $target/turnwire serve --demo   ($target is not in your PATH)" ;;
    esac
}

main
