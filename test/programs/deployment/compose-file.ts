import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';

/** `docker-compose.yml`, with every key that it uses: one that is not here is refused, and not passed over. */

const FILE = path.join(import.meta.dirname, '../../../docker-compose.yml');

const Healthcheck = z.strictObject({
  test: z.array(z.string()),
  interval: z.string(),
  timeout: z.string(),
  retries: z.number(),
  start_period: z.string().optional(),
});

const Service = z.strictObject({
  image: z.string(),
  build: z.string().optional(),
  user: z.string().optional(),
  init: z.boolean().default(false),
  restart: z.string(),
  network_mode: z.string().optional(),
  ports: z.array(z.string()).default([]),
  environment: z.record(z.string(), z.string()).default({}),
  env_file: z.array(z.strictObject({ path: z.string(), required: z.literal(false) })).default([]),
  depends_on: z
    .record(
      z.string(),
      z.strictObject({ condition: z.enum(['service_completed_successfully', 'service_healthy']) }),
    )
    .default({}),
  volumes: z.array(z.string()).default([]),
  logging: z.object({ options: z.object({ 'max-size': z.string() }) }),
  healthcheck: Healthcheck.optional(),
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()).optional(),
  read_only: z.boolean().default(false),
  tmpfs: z.array(z.string()).default([]),
  cap_drop: z.array(z.string()).default([]),
  security_opt: z.array(z.string()).default([]),
  ulimits: z.record(z.string(), z.number()).default({}),
  sysctls: z.record(z.string(), z.number()).default({}),
  shm_size: z.string().optional(),
  stop_grace_period: z.string().optional(),
});

const Compose = z.object({
  services: z.record(z.string(), Service),
  volumes: z.record(z.string(), z.null()),
});

export type ComposeService = z.infer<typeof Service>;
export type Compose = z.infer<typeof Compose>;

const PARSE = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))';

/** The file; or, on a machine where it cannot be read, what is missing there. */
export function readCompose(): { found?: Compose; missing?: string } {
  const parsed = spawnSync('/usr/bin/python3', ['-c', PARSE], {
    input: readFileSync(FILE, 'utf8'),
    encoding: 'utf8',
  });
  if (parsed.status !== 0) return { missing: parsed.stderr };
  return { found: Compose.parse(JSON.parse(parsed.stdout)) };
}
