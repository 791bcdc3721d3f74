import { eventually } from '../../../../support/eventually.ts';
import type { Compose, ComposeService } from '../../../deployment/compose-file.ts';
import { limitOptions, podman, type Ran, tryPodman } from './podman.ts';

/**
 * The services of the compose file as containers of podman, in a network and with volumes of their own, in the order and
 * under the conditions that the file says. `restart`, `logging`, `env_file` and the times of health checks are left out:
 * tests end containers on purpose, have no such file, and ask for the health themselves.
 */
export interface ComposeSet {
  /** Starts what does not run, and puts this image in place of the server's. `only`: these, and what they need. */
  up(image: string, only?: readonly string[]): Promise<void>;
  /** Runs a command in a new container of a service, beside which this folder of this machine is mounted. */
  run(service: string, words: readonly string[], folder: string): Promise<Ran>;
  stop(service: string): Promise<Ran>;
  start(service: string): Promise<void>;
  exec(service: string, words: readonly string[]): Promise<Ran>;
  /** The output of a command that succeeds. */
  ok(service: string, words: readonly string[]): Promise<string>;
  /** Copies a file out of a container, or into it: `server:/data/file`. */
  copy(from: string, to: string): Promise<void>;
  isHealthy(service: string): Promise<boolean>;
  logs(service: string): Promise<string>;
  /** Removes containers, volumes and the network. */
  remove(): Promise<void>;
}

interface SetOptions {
  /** Begins the names of what belongs to the set. */
  name: string;
  compose: Compose;
  /** What the file takes from the environment, as in `${PUBLIC_URL:-…}`. */
  env: Readonly<Record<string, string>>;
}

const START_MS = 120_000;
const RUN_MS = 300_000;

export async function createComposeSet({ name, compose, env }: SetOptions): Promise<ComposeSet> {
  const nameOf = (service: string) => `${name}-${service}`;
  const volumeOf = (mount: string) => `${name}_${mount}`;
  const names = Object.keys(compose.services);
  let serverImage = '';
  const partsOf = (service: string): ComposeService => {
    const parts = compose.services[service];
    if (parts === undefined) throw new Error(`The compose file has no service ${service}.`);
    return parts;
  };
  const imageOf = (service: string) =>
    service === 'server' ? serverImage : `docker.io/library/${partsOf(service).image}`;

  const exec = (service: string, words: readonly string[]) => tryPodman(['exec', nameOf(service), ...words]);
  // Asked for, as there is no systemd that would do it at the intervals of the file.
  const isHealthy = async (service: string) => {
    const [kind, ...words] = compose.services[service]?.healthcheck?.test ?? [];
    const asked = kind === 'CMD' ? exec(service, words) : tryPodman(['healthcheck', 'run', nameOf(service)]);
    return (await asked).code === 0;
  };
  const logs = async (service: string) => (await tryPodman(['logs', '--tail', '50', nameOf(service)])).output;
  const stateOf = async (service: string) =>
    (
      await tryPodman(['inspect', '--format', '{{.State.Status}} {{.ImageName}}', nameOf(service)])
    ).output.trim();

  async function meet(service: string, condition: ComposeService['depends_on'][string]['condition']) {
    if (condition === 'service_completed_successfully') {
      const code = await podman(['wait', nameOf(service)], { timeoutMs: START_MS });
      if (code !== '0') throw new Error(`${service} ended with ${code}:\n${await logs(service)}`);
      return;
    }
    await becomesHealthy(service);
  }
  const becomesHealthy = async (service: string) => {
    const isUp = await eventually(
      async () => isHealthy(service),
      (healthy) => healthy,
      START_MS,
    ).catch(() => false);
    if (!isUp) throw new Error(`${service} did not become healthy:\n${await logs(service)}`);
  };

  async function upOne(service: string): Promise<void> {
    const parts = partsOf(service);
    const image = imageOf(service);
    const state = await stateOf(service);
    if (state === `running ${image}` || (state === `exited ${image}` && parts.restart === 'no')) return;
    for (const [other, { condition }] of Object.entries(parts.depends_on)) await meet(other, condition);
    await tryPodman(['rm', '--force', '--time', '40', nameOf(service)]);
    const command = (parts.command ?? []).map((word) => interpolated(word, env));
    await podman(['run', '--detach', ...runOptions(parts, { service, name, env }), image, ...command]);
  }

  await podman(['network', 'create', name]);
  for (const mount of Object.keys(compose.volumes)) await podman(['volume', 'create', volumeOf(mount)]);
  return {
    isHealthy,
    logs,
    async up(image, only = names) {
      serverImage = image;
      // The file lists services after those on which they depend.
      for (const service of only) await upOne(service);
      for (const service of only) {
        if (partsOf(service).restart !== 'no') await becomesHealthy(service);
      }
    },
    run(service, words, folder) {
      const options = runOptions(
        { ...partsOf(service), ports: [] },
        { service: `${service}-run`, name, env },
      );
      const mounted = ['--rm', '--volume', `${folder}:${folder}`];
      return tryPodman(['run', ...mounted, ...options, imageOf(service), ...words], { timeoutMs: RUN_MS });
    },
    stop: (service) => tryPodman(['stop', nameOf(service)]),
    async start(service) {
      await podman(['start', nameOf(service)]);
      await becomesHealthy(service);
    },
    exec,
    ok: (service, words) => podman(['exec', nameOf(service), ...words]),
    async copy(from, to) {
      const placed = (where: string) =>
        where.replace(/^(\w+):/, (_all, service: string) => `${nameOf(service)}:`);
      await podman(['cp', placed(from), placed(to)]);
    },
    async remove() {
      for (const service of names.toReversed()) {
        await tryPodman(['rm', '--force', '--volumes', '--time', '1', nameOf(service)]);
      }
      for (const mount of Object.keys(compose.volumes)) await tryPodman(['volume', 'rm', volumeOf(mount)]);
      await tryPodman(['network', 'rm', name]);
    },
  };
}

/** The options of `podman run` with which a service is what the compose file describes. */
function runOptions(
  parts: ComposeService,
  { service, name, env }: Omit<SetOptions, 'compose'> & { service: string },
): string[] {
  const text = (value: string) => interpolated(value, env);
  const each = <T>(values: readonly T[], words: (value: T) => string[]) => values.flatMap(words);
  const pairs = <T>(values: Readonly<Record<string, T>>, option: string) =>
    each(Object.entries(values), ([key, value]) => [option, `${key}=${String(value)}`]);
  const one = (option: string, value: string | undefined) => (value === undefined ? [] : [option, value]);
  const { nofile, ...otherLimits } = parts.ulimits;
  if (Object.keys(otherLimits).length > 0) throw new Error('Only the limit of open files is followed.');
  return [
    '--pull=never',
    '--name',
    `${name}-${service}`,
    ...(parts.network_mode === undefined
      ? ['--network', name, '--network-alias', service]
      : ['--network', parts.network_mode]),
    ...pairs(
      Object.fromEntries(Object.entries(parts.environment).map(([key, value]) => [key, text(value)])),
      '--env',
    ),
    ...each(parts.volumes, (mount) => ['--volume', `${name}_${mount}`]),
    ...each(parts.ports, (published) => ['--publish', published]),
    ...each(parts.tmpfs, (folder) => ['--tmpfs', folder]),
    ...each(parts.cap_drop, (right) => ['--cap-drop', right]),
    ...each(parts.security_opt, (option) => ['--security-opt', option]),
    ...pairs(parts.sysctls, '--sysctl'),
    ...limitOptions(nofile ?? 20_000),
    ...one('--user', parts.user),
    ...one('--shm-size', parts.shm_size),
    ...one('--stop-timeout', parts.stop_grace_period?.replace(/s$/, '')),
    ...(parts.init ? ['--init'] : []),
    ...(parts.read_only ? ['--read-only'] : []),
    ...(parts.entrypoint === undefined ? [] : ['--entrypoint', JSON.stringify(parts.entrypoint)]),
  ];
}

/** As Compose fills a text in: `$$` is a dollar sign, and `${NAME:-value}` a variable or else this value. */
const interpolated = (text: string, env: Readonly<Record<string, string>>): string =>
  text.replaceAll(/\$\$|\$\{(\w+):-([^}]*)\}/g, (_all, name?: string, otherwise = '') =>
    name === undefined ? '$' : (env[name] ?? '') || otherwise,
  );
