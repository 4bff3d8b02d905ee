# The embedding server with its default model.
#
#   docker build -t nonneg .                            CPU
#   docker build -t nonneg:gpu --build-arg EXTRA=gpu .  CUDA: onnxruntime-gpu with the CUDA libraries it needs
#   docker run --rm -p 8000:8000 nonneg
#
# Every setting is an environment variable, NONNEG_...; see `nonneg serve --help`.
#
# What is installed is known by digest (deploy/image-*.txt, written by `scripts/lock hashes`). Pin the base image, too, by
# the digest that your registry gives: --build-arg PYTHON=3.12.12-slim-bookworm@sha256:...

ARG PYTHON=3.12.12-slim-bookworm

FROM python:${PYTHON} AS build
ARG EXTRA=server
WORKDIR /src
RUN python -m venv /opt/nonneg && python -m venv /opt/build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/image-${EXTRA}.txt deploy/image-build.txt ./deploy/
RUN /opt/nonneg/bin/pip install --require-hashes -r deploy/image-${EXTRA}.txt \
    && /opt/build/bin/pip install --require-hashes -r deploy/image-build.txt
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE MATERIALS.md ./
COPY client client
COPY training training
COPY export export
COPY server server
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/wheels . \
    && /opt/nonneg/bin/pip install --no-deps --no-index /opt/wheels/*.whl \
    && /opt/nonneg/bin/pip check \
    && /opt/nonneg/bin/python -m compileall -q /opt/nonneg/lib

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="nonneg" org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin nonneg
COPY --from=build /opt/nonneg /opt/nonneg
ENV PATH=/opt/nonneg/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NONNEG_HOST=0.0.0.0 \
    NONNEG_PORT=8000
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as u; e = os.environ; s = 's' if e.get('NONNEG_TLS_CERT') else ''; c = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE; u.urlopen(f'http{s}://127.0.0.1:{e[\"NONNEG_PORT\"]}/readyz', timeout=2, context=c)"]
CMD ["nonneg", "serve"]
