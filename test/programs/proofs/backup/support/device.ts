import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { saveCredentials } from '../../../../../src/agent/core/settings.ts';
import { openPrivateFolder } from '../../../../../src/agent/os/files/private-folder.ts';
import { type AgentProgram, startAgent } from '../../../../support/agent-program.ts';
import { eventually } from '../../../../support/eventually.ts';
import { buildDevice, type EnrolledDevice, type Ground } from '../../../../support/factories.ts';
import { killProgram } from '../../../../support/program.ts';
import type { Answer } from '../../../../support/test-app.ts';

/** A device with the real agent as a process of its own, what it backs up, and what people ask of it by REST. */
export interface ProofDevice extends EnrolledDevice {
  /** What is backed up. */
  source: string;
  agentDir: string;
  configId: string;
  agentOutput(): string;
  start(): Promise<void>;
  /** Starts it without waiting for it to be connected. */
  startLater(): void;
  /** kill -9 */
  kill(): Promise<void>;
  isRunning(): boolean;
  /** SIGTERM, as a service manager stops it. */
  stop(): Promise<void>;
  agentPid(): number | undefined;
  /** Asks for a backup; the id of its job. */
  order(): Promise<string>;
  job(id: string): Promise<Answer['body']>;
  ended(id: string): Promise<Answer['body']>;
  /** A backup to its end; throws unless it is completed. */
  backUp(): Promise<Answer['body']>;
  orderRestore(body: Record<string, unknown>): Promise<string>;
  restore(id: string): Promise<Answer['body']>;
  restored(id: string): Promise<Answer['body']>;
  close(): Promise<void>;
}

interface Parts {
  ground: Ground;
  orgId: string;
  url: string;
  ask(method: string, where: string, body?: unknown): Promise<Answer['body']>;
  config: Record<string, unknown>;
  within: string;
}

/** Longer than any lease or round of the server, even one that is killed in the same work again and again. */
export const STUCK_MS = 600_000;

export async function proofDevice({
  ground,
  orgId,
  url,
  ask,
  config: more,
  within,
}: Parts): Promise<ProofDevice> {
  const device = await buildDevice(ground, orgId);
  const { deviceId, siteId, token } = device;
  const agentDir = path.join(within, `agent-${deviceId}`);
  const source = path.join(within, `source-${deviceId}`);
  await mkdir(source);
  await openPrivateFolder(agentDir);
  await saveCredentials(agentDir, {
    server: url,
    deviceId,
    orgId,
    siteId,
    token,
    heartbeatSeconds: 2,
    enrolledAt: new Date().toISOString(),
  });
  const { id: keyId } = (await ask('GET', `/backup/encryption/keys?orgId=${orgId}`)).data[0];
  const config = await ask('POST', '/backup/configs', {
    orgId,
    name: `Backup of ${deviceId}`,
    provider: 'server',
    encryptionKeyId: keyId,
    sources: { paths: { linux: [source] } },
    targets: { deviceIds: [deviceId] },
    ...more,
  });
  const programs: AgentProgram[] = [];
  const last = () => programs.at(-1);
  const isRunning = () => {
    const child = last()?.child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  };
  const startLater = () => {
    if (!isRunning()) programs.push(startAgent(['run', '--data-dir', agentDir], { LOG_LEVEL: 'debug' }));
  };
  const kill = async () => {
    const program = last();
    if (program !== undefined) await killProgram(program);
  };
  const job = (id: string) => ask('GET', `/backup/jobs/${id}`);
  const restore = (id: string) => ask('GET', `/backup/restore/${id}`);
  const ended = (id: string) =>
    eventually(
      () => job(id),
      ({ finishedAt }) => finishedAt !== null,
      STUCK_MS,
    );
  const order = async () =>
    (await ask('POST', `/backup/jobs/run/${deviceId}`, { configId: config.id })).id as string;
  return {
    ...device,
    source,
    agentDir,
    configId: config.id,
    agentOutput: () => programs.map((program) => program.output()).join(''),
    startLater,
    kill,
    isRunning,
    agentPid: () => last()?.child.pid,
    async start() {
      startLater();
      await eventually(
        () => ask('GET', `/devices/${deviceId}`),
        ({ status }) => status === 'online',
        60_000,
      );
    },
    async stop() {
      last()?.child.kill('SIGTERM');
      await last()?.ended;
    },
    order,
    job,
    ended,
    async backUp() {
      const end = await ended(await order());
      if (end.status !== 'completed') throw new Error(`the backup is ${end.status}: ${JSON.stringify(end)}`);
      return end;
    },
    orderRestore: async (body) => (await ask('POST', '/backup/restore', body)).id as string,
    restore,
    restored: (id) =>
      eventually(
        () => restore(id),
        ({ completedAt }) => completedAt !== null,
        STUCK_MS,
      ),
    close: kill,
  };
}
