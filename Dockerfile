# Blindspot in a container: the command `blindspot`, which opens the app unless told otherwise. See docs/container.md.
# For a GPU: --build-arg REQUIREMENTS=requirements-gpu.txt --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/blindspot
WORKDIR /src
ARG REQUIREMENTS=requirements.txt
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY requirements.txt requirements-gpu.txt ./
RUN /opt/blindspot/bin/pip install --extra-index-url "$TORCH_INDEX" -r "$REQUIREMENTS"
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY backend backend
COPY analysis analysis
COPY src src
COPY db db
RUN /opt/blindspot/bin/pip install --no-deps .

FROM python:3.11.14-slim-bookworm
RUN groupadd --gid 10001 blindspot \
 && useradd --uid 10001 --gid 10001 --create-home blindspot \
 && install --directory --owner=10001 --group=10001 /study
COPY --from=build /opt/blindspot /opt/blindspot
ENV PATH=/opt/blindspot/bin:$PATH \
    BLINDSPOT_STUDY=/study \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /study
VOLUME ["/study"]
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://localhost:8501/_stcore/health', timeout=4)"]
ENTRYPOINT ["blindspot"]
CMD ["open", "--address", "0.0.0.0"]
