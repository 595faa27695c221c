#!/bin/sh
# Prints the Secrets that the installation needs, with passwords and keys made now:
#
#   sh k8s/secrets.sh | kubectl apply --server-side -f -
#
# --server-side: without it kubectl would keep a copy of each password in an annotation. What cannot be made ends this with an
# error before anything is printed. Keeps nothing; run twice it makes other passwords, and the pods must be started anew to see them
# (docs/operations.md). KEY_PREFIX and NAMESPACE in the environment change what is printed; `sh k8s/secrets.sh certificate` prints
# a new certificate of Redis alone, `sh k8s/secrets.sh reports-certificate` one of the report server.
set -eu
umask 077

usage() {
  cat <<'END'
usage: sh k8s/secrets.sh [certificate | reports-certificate] | kubectl apply --server-side -f -

Prints the Secrets that the installation needs, with new passwords and keys.
With `certificate`: only the Secret with a new certificate of Redis;
with `reports-certificate`: only that of the server that takes reports of progress.

  NAMESPACE=tj-system   namespace of the operator
  KEY_PREFIX=tj         as the setting TJ_KEY_PREFIX
END
}
case ${1:-} in
'' | certificate | reports-certificate) ;;
-h | --help)
  usage
  exit
  ;;
*)
  echo "secrets.sh: unknown argument $1" >&2
  usage >&2
  exit 2
  ;;
esac

prefix=${KEY_PREFIX:-tj}
namespace=${NAMESPACE:-tj-system}

# Prints $2 if it is $1 hexadecimal digits. A pipe hides that its first command failed; what came of it does not.
digits() {
  case $2 in *[!0-9a-f]*) set -- "$1" "" ;; esac
  if [ ${#2} -ne "$1" ]; then
    echo "secrets.sh: could not make a password: it needs od and /dev/urandom, and sha256sum or shasum" >&2
    return 1
  fi
  printf %s "$2"
}
# 192 bits of letters and digits: they need no quoting in a URL.
random() { digits 48 "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; }
sha256() { digits 64 "$(printf %s "$1" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1)"; }

# Indented, as a value of stringData.
pem() { sed 's/^/    /' "$folder/$1"; }

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

# Makes the certificate of Service $1, with the further names behind it, in its folder.
sign() {
  sh "$(dirname "$0")/certificates.sh" "$folder/$1" "$1" "$1.$namespace" "$1.$namespace.svc" \
    "$1.$namespace.svc.cluster.local" localhost
}

# Prints the Secret $1 of the Service $2.
certificate() {
  cat <<END
apiVersion: v1
kind: Secret
metadata:
  name: $1
  namespace: $namespace
  labels:
    app.kubernetes.io/part-of: trainingjob-operator
type: kubernetes.io/tls
stringData:
  ca.crt: |
$(pem "$2/ca.crt")
  tls.crt: |
$(pem "$2/tls.crt")
  tls.key: |
$(pem "$2/tls.key")
END
}
redis_certificate() {
  echo "# Of Redis; its clients see ca.crt alone. The names are cert-manager's, which may take it over (docs/operations.md)."
  certificate tj-redis-tls tj-redis
}
reports_certificate() {
  echo "# Of the server that takes reports of progress; workers write ca.crt into the pods of jobs."
  certificate tj-reports-tls tj-reports
}
if [ "${1:-}" = certificate ]; then
  sign tj-redis
  redis_certificate
  exit
fi
sign tj-reports
if [ "${1:-}" = reports-certificate ]; then
  reports_certificate
  exit
fi
sign tj-redis

redis=$(random)
tasks=$(random)
page=$(random)
flower=$(random)
records=$(random)
redis_sha256=$(sha256 "$redis")
tasks_sha256=$(sha256 "$tasks")
page_sha256=$(sha256 "$page")

redis_certificate
echo ---
reports_certificate
cat <<END
---
apiVersion: v1
kind: Secret
metadata:
  name: tj-redis
  namespace: $namespace
  labels:
    app.kubernetes.io/part-of: trainingjob-operator
stringData:
  # Of watcher and workers; beat and Flower have a user of their own, who sees messages alone.
  # The certificate is looked at, name included: ca.crt of tj-redis-tls lies in every pod of ours.
  url: rediss://tj:$redis@tj-redis:6379/0?ssl_ca_certs=/etc/redis-ca/ca.crt
  tasks-url: rediss://tj-tasks:$tasks@tj-redis:6379/0?ssl_ca_certs=/etc/redis-ca/ca.crt
  # Of the page (k8s/page), which may only read.
  page-url: rediss://tj-page:$page@tj-redis:6379/0?ssl_ca_certs=/etc/redis-ca/ca.crt
  # tjworker/store/users.py has why each word. None may run a command that administrates, and none sees
  # another operator's keys, as long as no prefix in this Redis begins with another (~$prefix??? would match its queue).
  users.acl: |
    user default off
    user probe on nopass resetkeys resetchannels -@all +ping
    user tj on #$redis_sha256 ~$prefix ~$prefix??? ~$prefix.* ~_kombu* ~*.$prefix.control.pidbox* ~$prefix:* resetchannels &/0.$prefix.control.pidbox &/0.$prefix.events/* &/0.$prefix.events/worker.* +@all -@admin -@dangerous -randomkey -client|tracking -script -function -fcall -fcall_ro +script|load +script|exists +info
    user tj-tasks on #$tasks_sha256 ~$prefix ~$prefix??? ~$prefix.* ~_kombu* ~*.$prefix.control.pidbox* resetchannels &/0.$prefix.control.pidbox &/0.$prefix.events/* -@all +@connection +@transaction +@pubsub +@list +@set +@sortedset +del +exists +time +evalsha +script|load +script|exists -@admin -@dangerous -randomkey -client|tracking
    user tj-page on #$page_sha256 %R~$prefix:* resetchannels -@all +@connection +time +evalsha +script|load +script|exists +get +mget +hget +hmget +hgetall +hlen +sscan +scard +zrange +zrangebyscore +zcard +zcount -@admin -@dangerous -randomkey -client|tracking
---
# Of watcher and workers alone. Several keys are separated by commas: the first seals, all open (docs/operations.md).
apiVersion: v1
kind: Secret
metadata:
  name: tj-records
  namespace: $namespace
  labels:
    app.kubernetes.io/part-of: trainingjob-operator
stringData:
  keys: $records
---
apiVersion: v1
kind: Secret
metadata:
  name: tj-flower
  namespace: $namespace
  labels:
    app.kubernetes.io/part-of: trainingjob-operator
stringData:
  basic-auth: admin:$flower
END
