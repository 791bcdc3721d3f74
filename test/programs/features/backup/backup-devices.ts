import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { saveCredentials } from '../../../../src/agent/core/settings.ts';
import { openPrivateFolder } from '../../../../src/agent/os/files/private-folder.ts';
import { type AgentProgram, startAgent } from '../../../support/agent-program.ts';
import { buildDevice } from '../../../support/factories.ts';
import { eventually } from '../../../support/eventually.ts';
import type { TestApp } from '../../../support/test-app.ts';

/** A device with the real agent, as a process of its own, and the real engine. */
export interface RealDevice {
  deviceId: string;
  dataDir: string;
  /** Starts the agent and waits until it is connected. */
  start(): Promise<AgentProgram>;
  /** Kills it as a power cut would. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export async function realDevice(app: TestApp, orgId: string): Promise<RealDevice> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'muster-backup-agent-'));
  await openPrivateFolder(dataDir);
  const { deviceId, siteId, token } = await buildDevice(app, orgId);
  await saveCredentials(dataDir, {
    server: app.url,
    deviceId,
    orgId,
    siteId,
    token,
    heartbeatSeconds: 60,
    enrolledAt: new Date().toISOString(),
  });
  let program: AgentProgram | undefined;
  const kill = async () => {
    program?.child.kill('SIGKILL');
    await program?.ended;
    program = undefined;
  };
  return {
    deviceId,
    dataDir,
    kill,
    async start() {
      program = startAgent(['run', '--data-dir', dataDir]);
      const started = program;
      await eventually(
        () => {
          if (started.child.exitCode !== null) throw new Error(`The agent ended: ${started.output()}`);
          return app.server.hub.live(deviceId)?.isConnected;
        },
        (isConnected) => isConnected === true,
        30_000,
      );
      return program;
    },
    async close() {
      await kill();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
