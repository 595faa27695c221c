#!/bin/sh
# Makes the certificate that Redis, or the report server, shows its clients:
#
#   sh certificates.sh FOLDER NAME...        # FOLDER/ca.crt, tls.crt, tls.key; NAMEs are what clients call the server
#
# An authority signs this one certificate, and its key is thrown away: nobody can sign another with it. Who replaces the
# certificate replaces the authority, too. Both are good for ten years (docs/adr/0022-redis-behind-tls.md). What stands in FOLDER
# stays while it is good for a month and more. It needs openssl; what cannot be made ends this with an error.
set -eu
umask 077
export LC_ALL=C

days=3650
month_seconds=2592000
usage() {
  cat <<'END'
usage: sh k8s/certificates.sh FOLDER NAME...

Makes FOLDER/ca.crt, FOLDER/tls.crt and FOLDER/tls.key for a server that its clients call NAME,
unless a certificate is there that is good for a month and more. Needs openssl.
END
}
case ${1:-} in -h | --help)
  usage
  exit
  ;;
esac
if [ $# -lt 2 ]; then
  usage >&2
  exit 2
fi
folder=$1
shift

fail() {
  echo "certificates.sh: $1" >&2
  exit 1
}
command -v openssl >/dev/null || fail "could not make a certificate: openssl is not on the PATH"

if openssl x509 -in "$folder/tls.crt" -noout -checkend "$month_seconds" >/dev/null 2>&1 &&
  openssl verify -CAfile "$folder/ca.crt" "$folder/tls.crt" >/dev/null 2>&1; then
  exit 0
fi

mkdir -p "$folder"
work=$(mktemp -d "$folder/new.XXXXXX") || fail "could not write to $folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

names=
for name in "$@"; do names=${names:+$names,}DNS:$name; done

cat >"$work/openssl.cnf" <<END
[req]
distinguished_name = none
[none]
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = $names
END

# One chain: `set -e` does not reach into a function whose failure is asked for.
make() {
  cd "$work" &&
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key &&
    openssl ecparam -name prime256v1 -genkey -noout -out tls.key &&
    openssl req -new -x509 -sha256 -key ca.key -config openssl.cnf -extensions authority -days "$days" \
      -subj "/CN=$1 of trainingjob-operator" -out ca.crt &&
    openssl req -new -sha256 -key tls.key -config openssl.cnf -subj "/CN=$1" -out tls.csr &&
    openssl x509 -req -sha256 -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile openssl.cnf \
      -extensions server -days "$days" -out tls.crt &&
    openssl verify -CAfile ca.crt tls.crt
}
said=$(make "$1" 2>&1) || fail "could not make a certificate: $said"
chmod 644 "$work/ca.crt" "$work/tls.crt"
mv "$work/ca.crt" "$work/tls.key" "$work/tls.crt" "$folder/"
