#!/bin/sh
# Prints the Secrets that the installation needs, with passwords and keys made now:
#
#   sh k8s/secrets.sh | kubectl apply -f -
#
# Keeps nothing; run twice it makes other passwords, and the pods must be started anew to see them
# (docs/operations.md). KEY_PREFIX and NAMESPACE in the environment change what is printed.
set -eu

prefix=${KEY_PREFIX:-tj}
namespace=${NAMESPACE:-tj-system}

# 192 bits of letters and digits: they need no quoting in a URL.
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
sha256() { printf %s "$1" | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1; }

redis=$(random)
flower=$(random)
records=$(random)

cat <<END
apiVersion: v1
kind: Secret
metadata:
  name: tj-redis
  namespace: $namespace
  labels:
    app.kubernetes.io/part-of: trainingjob-operator
stringData:
  url: redis://tj:$redis@tj-redis:6379/0
  # The operator's user sees its own keys alone (docs/redis.md), and no user may run a command that administrates.
  users.acl: |
    user default off
    user probe on nopass resetkeys resetchannels -@all +ping
    user tj on #$(sha256 "$redis") ~$prefix* ~_kombu* ~*.$prefix.control.pidbox* &* +@all -@admin -@dangerous +info +client|setname +client|setinfo +client|id
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
