# Portcullis: the ways to build, try and check it. `make` alone lists them.

TARGET := $(or $(CARGO_TARGET_DIR),target)
BACKEND ?= embedded
ARGS ?=
SEEDS ?= 10000
SECONDS ?= 60
KILLS ?= 10000
MINUTES ?= 100

.DEFAULT_GOAL := help
.PHONY: help demo run test simulate model fuzz soak check bench services-up services-down

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

demo: ## Show a denial, an approval and the waits between: BACKEND=embedded|rabbitmq
	@test -f deploy/demo/$(BACKEND).sh || \
	  { echo "BACKEND=$(BACKEND): no such demo; choose embedded or rabbitmq" >&2; exit 2; }
	@bash deploy/demo/$(BACKEND).sh

run: ## Run everything in one process on the embedded store
	cargo run --locked -p portcullis -- up $(ARGS)

test: ## Run every test, on private Redis and RabbitMQ servers: ARGS=<filter>
	@bash deploy/dev/test.sh $(ARGS)

simulate: ## Play many seeds of the simulation: SEEDS=1000000 [ARGS="--from N --threads N"]
	cargo run --locked --release -p portcullis-tests --bin simulate -- --seeds $(SEEDS) $(ARGS)

model: ## Search every state of small worlds, with each guard taken out: [ARGS="--deeper 2"]
	cargo run --locked --release -p portcullis-model -- $(ARGS)

fuzz: ## Give changed documents to every reader: SECONDS=60 [TARGET=name] [ARGS="--replay FILE"]
	cargo run --locked --release -p portcullis-tests --bin fuzz -- --seconds $(SECONDS) \
	  $(if $(filter command line,$(origin TARGET)),--target $(TARGET)) $(ARGS)

soak: ## Kill everything at random under load: KILLS=10000 MINUTES=100 [ARGS="embedded --seed N"]
	@bash deploy/dev/need.sh redis-server rabbitmq-server
	cargo build --locked --release --workspace --bins
	@$(TARGET)/release/soak --kills $(KILLS) --minutes $(MINUTES) $(ARGS)

check: ## Check format, lints, docs, house rules, deploy files and generated files
	@bash deploy/dev/check.sh

bench: ## Measure: one line of JSON per figure, in both homes
	@bash deploy/dev/need.sh redis-server rabbitmq-server
	cargo build --locked --release --workspace --bins
	@$(TARGET)/release/with-servers $(TARGET)/release/bench $(ARGS)

services-up: ## Start a private Redis and RabbitMQ to develop against; prints their addresses
	@bash deploy/dev/services.sh up

services-down: ## Stop them; their data goes with them
	@bash deploy/dev/services.sh down
