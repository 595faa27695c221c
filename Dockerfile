# One file, two images:
#
#   docker build -t localhost/trainingjob-operator:0.1.0 .                            watcher, workers, beat, Flower, tj
#   docker build -t localhost/trainingjob-operator-local:0.1.0 --target local .       the same with the local cluster and what its pods run
#
# Any Python from 3.11 on will do; a build that must be the same tomorrow names it by its digest:
#
#   docker build --build-arg PYTHON=python:3.11-slim@sha256:... .
#
# With a history in PostgreSQL (TJ_HISTORY_URL, docs/page.md): --build-arg REQUIREMENTS=history.
#
# Wheels are fetched in stages of their own, each archive checked against its hash; nothing is compiled, and the final stages
# install without the network.

ARG PYTHON=python:3.11-slim
ARG REQUIREMENTS=runtime

FROM ${PYTHON} AS wheels
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
# Dependencies first: they change less often than the code, and the layer is kept.
ARG REQUIREMENTS
COPY requirements/build.txt requirements/${REQUIREMENTS}.txt requirements/
RUN pip install --quiet --only-binary=:all: --require-hashes -r requirements/build.txt \
    && pip download --quiet --only-binary=:all: --require-hashes --dest /wheels -r requirements/${REQUIREMENTS}.txt
COPY pyproject.toml README.md LICENSE beat_schedule.py ./
COPY tjworker tjworker
COPY watcher watcher
RUN pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /project .

FROM wheels AS wheels-local
COPY requirements/local.txt requirements/
RUN pip download --quiet --only-binary=:all: --require-hashes --dest /wheels -r requirements/local.txt
COPY localcluster/pyproject.toml localcluster/README.md localcluster/
COPY localcluster/src localcluster/src
RUN pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /project ./localcluster

FROM ${PYTHON} AS base
# Nothing is written: the root file system may be read-only. HOME is where the kubernetes client looks for a kubeconfig.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 HOME=/tmp
# A volume that is mounted here, or at /data, gets this owner; those of the certificate that of Redis.
RUN mkdir /kube /etc/redis-tls /etc/redis-ca /etc/reports-tls /etc/reports-ca && chown 65532:65532 /kube && \
    chown 999:1000 /etc/redis-tls /etc/redis-ca /etc/reports-tls /etc/reports-ca
WORKDIR /app

FROM base AS local
RUN --mount=type=bind,from=wheels-local,source=/wheels,target=/wheels \
    --mount=type=bind,from=wheels-local,source=/project,target=/project \
    --mount=type=bind,from=wheels-local,source=/build/requirements,target=/requirements \
    pip install --quiet --no-index --find-links /wheels --require-hashes -r /requirements/local.txt \
    && pip install --quiet --no-deps --no-index /project/*.whl
# The CRDs to apply, and the example whose pods run as processes of this container.
COPY k8s/crds k8s/crds
COPY examples examples
RUN mkdir /data && chown 65532:65532 /data
USER 65532:65532
CMD ["python", "-m", "localcluster", "--help"]

# Last: what `docker build .` makes.
FROM base AS operator
ARG REQUIREMENTS
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    --mount=type=bind,from=wheels,source=/project,target=/project \
    --mount=type=bind,from=wheels,source=/build/requirements,target=/requirements \
    pip install --quiet --no-index --find-links /wheels --require-hashes -r /requirements/${REQUIREMENTS}.txt \
    && pip install --quiet --no-deps --no-index /project/*.whl
# By number: a pod with runAsNonRoot is refused when only a name is known.
USER 65532:65532
CMD ["tj", "--help"]
