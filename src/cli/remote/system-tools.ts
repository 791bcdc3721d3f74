import { z } from 'zod';
import {
  EndedProcess,
  LiveService,
  MachineProcess,
  type ServiceAction,
  ServiceChange,
} from '../../protocol/index.ts';
import type { CommandIo } from '../io.ts';
import { deviceNamed } from './names.ts';
import { localSeconds } from './local-time.ts';
import { createOutput, table } from './output.ts';
import { type Api, apiOf } from './api.ts';
import { EXIT, profileNamed, RemoteFailure } from './profiles.ts';

/** `muster processes` and `muster services`: what runs on a device now, as the dashboard shows it. Nothing is stored. */

export interface ToolOptions {
  device: string;
  profile?: string;
  json?: boolean;
}

interface Target {
  api: Api;
  base: string;
}

async function targetOf(io: CommandIo, { device, profile }: ToolOptions): Promise<Target> {
  const api = apiOf(await profileNamed(io, profile));
  const { id } = await deviceNamed(api, device);
  return { api, base: `/system-tools/devices/${id}` };
}

const Processes = z.object({ data: z.array(MachineProcess), meta: z.object({ total: z.number() }) });

const KIBIBYTE = 1024;
const memory = (bytes: number | undefined) =>
  bytes === undefined ? '' : `${Math.round(bytes / KIBIBYTE / KIBIBYTE)} MiB`;

export async function listProcesses(
  io: CommandIo,
  options: ToolOptions & { search?: string; limit?: number },
): Promise<number> {
  const output = createOutput(io, options);
  const { api, base } = await targetOf(io, options);
  const { data, meta } = await api.get(`${base}/processes`, Processes);
  const part = options.search?.toLowerCase() ?? '';
  const found = data.filter(({ name, commandLine = '', user = '' }) =>
    [name, commandLine, user].some((text) => text.toLowerCase().includes(part)),
  );
  const shown = found.slice(0, options.limit);
  if (output.isJson) {
    for (const process of shown) output.json(process);
    return 0;
  }
  const rows = shown.map(
    ({ pid, user = '', cpuPercent, memoryBytes, startedAt = '', state = '', name, commandLine }) => [
      String(pid),
      user,
      cpuPercent === undefined ? '' : `${cpuPercent} %`,
      memory(memoryBytes),
      startedAt === '' ? '' : localSeconds(startedAt),
      state,
      name,
      commandLine ?? '',
    ],
  );
  const titles = ['PID', 'USER', 'CPU', 'MEMORY', 'STARTED AT', 'STATE', 'NAME', 'COMMAND'];
  if (rows.length > 0) for (const line of table(titles, rows, output.width)) output.line(line);
  output.remark(`${shown.length} of ${meta.total} processes`);
  return 0;
}

export async function endProcess(
  io: CommandIo,
  options: ToolOptions & { pid: number; startedAt?: string },
): Promise<number> {
  const { pid } = options;
  const output = createOutput(io, options);
  const { api, base } = await targetOf(io, options);
  const startedAt = options.startedAt ?? (await startOf({ api, base }, pid));
  const ended = await api.post(`${base}/processes/${pid}/end`, EndedProcess, { startedAt });
  const { name, outcome, graceSeconds } = ended;
  if (output.isJson) output.json({ pid, ...ended });
  else output.remark(`${name} (${pid}) ${ENDS[outcome](graceSeconds)}`);
  return outcome === 'still_running' ? EXIT.finding : 0;
}

const ENDS: Readonly<Record<EndedProcess['outcome'], (graceSeconds: number) => string>> = {
  ended: () => 'has ended.',
  killed: (seconds) => `was ended by force, after ${seconds} seconds.`,
  still_running: () => 'is still running, although the system was told to end it.',
};

/** The start of the process that has the number now. */
async function startOf({ api, base }: Target, pid: number): Promise<string> {
  const { data } = await api.get(`${base}/processes`, Processes);
  const found = data.find((process) => process.pid === pid);
  if (found?.startedAt !== undefined) return found.startedAt;
  throw new RemoteFailure(
    EXIT.failed,
    found === undefined
      ? `The device lists no process ${pid}. If it has very many, name its start with --started-at.`
      : `The device does not say when the process ${pid} started, so it is not ended.`,
  );
}

const Services = z.object({ data: z.array(LiveService), meta: z.object({ total: z.number() }) });

export async function listServices(
  io: CommandIo,
  options: ToolOptions & { search?: string; state?: string },
): Promise<number> {
  const output = createOutput(io, options);
  const { api, base } = await targetOf(io, options);
  const { data, meta } = await api.get(`${base}/services`, Services);
  const part = options.search?.toLowerCase() ?? '';
  const shown = data.filter(
    ({ name, displayName = '', state }) =>
      (options.state === undefined || options.state === state) &&
      [name, displayName].some((text) => text.toLowerCase().includes(part)),
  );
  if (output.isJson) {
    for (const service of shown) output.json(service);
    return 0;
  }
  const rows = shown.map(({ name, state, startMode = '', displayName = '' }) => [
    name,
    state,
    startMode,
    displayName,
  ]);
  if (rows.length > 0) {
    const titles = ['NAME', 'STATE', 'START', 'DESCRIPTION'];
    for (const line of table(titles, rows, output.width)) output.line(line);
  }
  output.remark(`${shown.length} of ${meta.total} services`);
  return 0;
}

export async function controlService(
  io: CommandIo,
  options: ToolOptions & { name: string },
  action: ServiceAction,
): Promise<number> {
  const output = createOutput(io, options);
  const { api, base } = await targetOf(io, options);
  const path = `${base}/services/${encodeURIComponent(options.name)}/${action}`;
  const change = await api.post(path, ServiceChange, {});
  if (output.isJson) output.json({ name: options.name, action, ...change });
  else output.remark(`${options.name} was ${change.before} and is ${change.after} now.`);
  return 0;
}
