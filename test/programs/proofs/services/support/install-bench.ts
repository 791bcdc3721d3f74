import { readFile, rm } from 'node:fs/promises';
import { expect } from 'chai';
import { WATCHDOG_VERSION } from '../../../../../src/watchdog/version.ts';
import { type BuiltAgent, buildOwnAgent, builtAgent } from '../../../../support/built-agent.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../../../support/factories.ts';
import { createReleaseBench, upload } from '../../../../support/releases/release-support.ts';
import type { Container } from './container.ts';

/** A server that has published the agent, and what it and a container say of the device that was made of the container. */
export interface InstallBench {
  url: string;
  key: string;
  /** The line that the server gives out. */
  install(words?: string): string;
  uninstall: string;
  devices(search?: string): Promise<Device[]>;
  /** Resolves when the agent of the container is connected, in another process than the former one. */
  connected(container: Container, former?: Connected): Promise<Connected>;
  /** Publishes agent and watchdog under this version, which every device then installs. */
  publish(version: string): Promise<void>;
  /** Resolves when the upgrades of both components to this version have ended well. */
  upgraded(version: string): Promise<void>;
  close(): Promise<void>;
}

interface Device {
  id: string;
  status: string;
  agentVersion: string;
  watchdogVersion: string | null;
}

export interface Connected {
  agent: number;
  since: string;
  device: Device;
}

const CONNECT_MS = 90_000;
const UPGRADE_MS = 240_000;

export async function startInstallBench(): Promise<InstallBench> {
  const bench = await createReleaseBench({ env: { AGENT_HEARTBEAT_SECONDS: '1' } });
  const tenant = await buildTenant(bench.app);
  const key = await buildEnrollmentKey(bench.app, tenant.orgId);
  const released: BuiltAgent[] = [];
  const get = async (where: string) =>
    (await bench.app.call('GET', where, { token: tenant.admin.token })).body;
  const devices = async (search = '') => (await get(`/devices${search}`)).data as Device[];

  async function put(component: 'agent' | 'watchdog', version: string, file: string): Promise<void> {
    const platform = `${component}/linux/${process.arch}`;
    const { status, body } = await upload(bench, { version, platform, bytes: await readFile(file) });
    expect(status, JSON.stringify(body)).to.equal(201);
    const promotion = { token: bench.admin.token, body: { version, component } };
    await bench.app.call('POST', '/agent-versions/promote', promotion);
  }

  await put('watchdog', WATCHDOG_VERSION, (await builtAgent()).program);
  const line = (words: string) => `curl -fsSL ${bench.app.url}/install.sh | sh -s -- ${words}`;
  return {
    url: bench.app.url,
    key,
    devices,
    install: (words = '') => line(`--key ${key} ${words}`),
    uninstall: line('--uninstall'),
    async connected(container, former) {
      const found = await eventually(
        async () => ({ status: await statusOf(container), device: (await devices())[0] }),
        ({ status, device }) =>
          device?.status === 'online' &&
          status?.running?.connection.state === 'connected' &&
          status.running.connection.since !== former?.since,
        CONNECT_MS,
      );
      const { running } = found.status ?? {};
      if (running == null || found.device === undefined) throw new Error('not connected');
      return { agent: running.pid, since: running.connection.since ?? '', device: found.device };
    },
    async publish(version) {
      const built = await buildOwnAgent({ agent: version, watchdog: version });
      released.push(built);
      await put('agent', version, built.script);
      await put('watchdog', version, built.program);
    },
    async upgraded(version) {
      const [device] = await devices();
      await eventually(
        async () =>
          (await get(`/devices/${device?.id}/upgrades`)).data as { current: string; state: string }[],
        (components) =>
          components.length === 2 &&
          components.every(({ current, state }) => current === version && state === 'up_to_date'),
        UPGRADE_MS,
      );
    },
    async close() {
      await bench.close();
      for (const { folder } of released) await rm(folder, { recursive: true });
    },
  };
}

interface Status {
  running: { pid: number; connection: { state: string; since?: string } } | null;
}

/** Where the command for people could not be placed, the program itself is used. */
const WITH_PROGRAM = 'PATH=$PATH:/opt/muster/watchdog/current';

/** What the agent of the container says of itself; `undefined` if it says nothing, as during a start of the machine. */
export async function statusOf(container: Container): Promise<Status | undefined> {
  const { output } = await container.run(`${WITH_PROGRAM} muster-agent status --json 2>/dev/null`);
  try {
    return JSON.parse(output) as Status;
  } catch {
    return undefined;
  }
}
