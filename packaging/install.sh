#!/bin/sh
# Installs the program of Turnwire for this user, or for all if root runs it:
#
#   curl -fsSL https://…/install.sh | sh
#
# TURNWIRE_BASE_URL      where the files of the release are
# TURNWIRE_INSTALL_DIR   where the program goes (default: ~/.local/bin, for root /usr/local/bin)
# TURNWIRE_PUBLIC_KEY    the minisign key that has to have signed the release (default: the one in this script)
# TURNWIRE_REQUIRE_SIGNATURE=1   installs nothing if the signature cannot be verified
#
# It downloads one archive, verifies the signature of the release's list with minisign or OpenSSL 3, compares the
# archive's SHA-256 with the list, and copies one file. A signature that is wrong or missing ends it. On a machine
# that has neither program it says so and goes on. All of it is in functions, so that half a script does nothing.
set -eu

BASE_URL="${TURNWIRE_BASE_URL:-@BASE_URL@}"
PUBLIC_KEY="${TURNWIRE_PUBLIC_KEY:-@PUBLIC_KEY@}"

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

unverified() {
    [ "${TURNWIRE_REQUIRE_SIGNATURE:-}" != 1 ] || give_up "$1"
    echo "install: not verified who made this release: $1" >&2
}

# The parts of key and signature as OpenSSL reads them, in $folder. Fails if this OpenSSL cannot do it.
openssl_can() {
    case "$(openssl version 2>/dev/null)" in
        "OpenSSL "[3-9]*) ;;
        *) return 1 ;;
    esac
    printf '%s' "$PUBLIC_KEY" | openssl base64 -d -A >"$folder/key"
    # What precedes the 32 bytes of an Ed25519 key in DER.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && tail -c 32 "$folder/key"; } >"$folder/key.der"
    openssl pkey -pubin -inform DER -in "$folder/key.der" -noout 2>/dev/null &&
        openssl dgst -blake2b512 -binary "$folder/SHA256SUMS" >"$folder/hash" 2>/dev/null
}

# A signature is two letters for the algorithm, eight bytes that name the key, and 64 bytes of Ed25519 over the BLAKE2b.
openssl_verifies() {
    sed -n 2p "$folder/SHA256SUMS.minisig" | openssl base64 -d -A >"$folder/signature"
    tail -c 64 "$folder/signature" >"$folder/signature.raw"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$folder/key.der" -rawin -in "$folder/hash" \
        -sigfile "$folder/signature.raw" >/dev/null 2>&1
}

# The list of the release is what its makers signed.
verify_list() {
    case "$PUBLIC_KEY" in
        "" | @*)
            unverified "this script has no key; TURNWIRE_PUBLIC_KEY can name one"
            return
            ;;
    esac
    if command -v minisign >/dev/null 2>&1; then
        with=minisign
    elif openssl_can; then
        with=openssl
    else
        unverified "there is neither minisign nor OpenSSL 3"
        return
    fi
    (download "$BASE_URL/SHA256SUMS.minisig" "$folder/SHA256SUMS.minisig") ||
        give_up "the release has no signature, so nothing says who made it"
    if [ "$with" = minisign ]; then
        minisign -Vq -P "$PUBLIC_KEY" -m "$folder/SHA256SUMS" >/dev/null 2>&1
    else
        openssl_verifies
    fi || give_up "the signature of the release is wrong: its list is not what the makers of Turnwire signed"
    echo "The signature of the release is right (verified with $with)."
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
    verify_list
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
