import { AGENT_VERSION } from '../../../../src/agent/core/version.ts';
import { eventually } from '../../../support/eventually.ts';
import { buildEnrollmentKey, buildTenant } from '../../../support/factories.ts';
import { createTestApp, type TestApp } from '../../../support/test-app.ts';
import { builtWindowsAgent } from './built-windows-agent.ts';
import { answerAsWindows, type LogStates, type WindowsAnswers } from './windows-answers.ts';
import { startWineMachine, type WineMachine } from './wine-machine.ts';

/** A Windows machine, the released executable of the agent, and a real server with a tenant. */
export interface ManagedWindows extends WindowsAnswers {
  app: TestApp;
  tenant: Awaited<ReturnType<typeof buildTenant>>;
  machine: WineMachine;
  /** Runs a command of the agent to its end. */
  agent(...args: string[]): ReturnType<WineMachine['run']>;
  /** Enrolls the machine. Returns the id of the device. */
  enroll(): Promise<string>;
  /** What the tenant's administrator reads there. */
  // oxlint-disable-next-line typescript/no-explicit-any -- an answer is whatever the server sent
  get(where: string): Promise<any>;
  close(): Promise<void>;
}

export async function startManagedWindows(
  states?: LogStates,
  env: Record<string, string> = {},
): Promise<ManagedWindows> {
  const { program } = await builtWindowsAgent(AGENT_VERSION);
  const app = await createTestApp({ env: { AGENT_HEARTBEAT_SECONDS: '1', ...env } });
  const tenant = await buildTenant(app);
  const machine = await startWineMachine();
  const agent = (...args: string[]) => machine.run(program, args);
  return {
    ...answerAsWindows(machine, states),
    app,
    tenant,
    machine,
    agent,
    async enroll() {
      const key = await buildEnrollmentKey(app, tenant.orgId);
      const { code, output } = await agent('enroll', '--server', app.url, '--key', key);
      const deviceId = /Enrolled as device (\S+)/.exec(output)?.[1];
      if (code !== 0 || deviceId === undefined) throw new Error(`The enrollment has failed: ${output}`);
      return deviceId;
    },
    get: async (where) => (await app.call('GET', where, { token: tenant.admin.token })).body,
    async close() {
      await machine.close();
      await app.close();
    },
  };
}

/** Enrolls, installs and waits until the device is online. */
export async function connectedDevice(windows: ManagedWindows): Promise<string> {
  const deviceId = await windows.enroll();
  const { code, output } = await windows.agent('service', 'install');
  if (code !== 0) throw new Error(`The service was not installed: ${output}`);
  await eventually(
    () => windows.get(`/devices/${deviceId}`),
    ({ status }) => status === 'online',
    60_000,
  );
  return deviceId;
}
