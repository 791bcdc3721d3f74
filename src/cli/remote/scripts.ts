import { z } from 'zod';
import type { CommandIo } from '../io.ts';
import { type ActOptions, confirm, dryRun, hostnamesOf } from './act.ts';
import { apiOf } from './api.ts';
import { conditionsOf } from './devices.ts';
import { interruptible } from './hub-connection.ts';
import { localTime } from './local-time.ts';
import { scriptNamed } from './names.ts';
import { createOutput, table } from './output.ts';
import { EXIT, profileNamed } from './profiles.ts';
import { follow, startRuns } from './script-runs.ts';
import { parametersOf, secretsOf } from './script-values.ts';
import { targetsOf } from './targets.ts';

/** `muster scripts`: lists saved scripts, and runs them on devices. */

const Page = z.object({
  data: z.array(
    z.object({
      id: z.uuid(),
      name: z.string(),
      language: z.string(),
      osTypes: z.array(z.string()),
      updatedAt: z.string(),
    }),
  ),
  pagination: z.object({ total: z.number() }),
});
const PAGE = 100;

export async function listScripts(
  io: CommandIo,
  options: { search?: string; profile?: string; json?: boolean },
): Promise<number> {
  const output = createOutput(io, options);
  const api = apiOf(await profileNamed(io, options.profile));
  const rows: string[][] = [];
  for (let page = 1; !output.unread.aborted; page++) {
    const query = { search: options.search, limit: String(PAGE), page: String(page) };
    const { data, pagination } = await api.get('/scripts', Page, query);
    for (const script of data) {
      const { name, language, osTypes, updatedAt, id } = script;
      if (output.isJson) output.json(script);
      else rows.push([name, language, osTypes.join(','), localTime(updatedAt), id]);
    }
    if (data.length < PAGE || page * PAGE >= pagination.total) break;
  }
  if (output.isJson) return 0;
  const titles = ['NAME', 'LANGUAGE', 'SYSTEMS', 'CHANGED', 'ID'];
  if (rows.length > 0) for (const line of table(titles, rows, output.width)) output.line(line);
  output.remark(rows.length === 1 ? '1 script' : `${rows.length} scripts`);
  return 0;
}

export interface RunOptions extends Omit<ActOptions, 'device'> {
  on?: string[];
  parameter?: string[];
  secret?: string[];
  detach?: boolean;
}

export async function runScript(io: CommandIo, named: string, options: RunOptions): Promise<number> {
  const output = createOutput(io, options);
  const profile = await profileNamed(io, options.profile);
  const conditions = await conditionsOf(io, options);
  const api = apiOf(profile);
  const script = await scriptNamed(api, named);
  const targets = await targetsOf(profile, options.on ?? [], conditions);
  const does = `given the script ${script.name} to run`;
  if (options.dryRun === true) return dryRun(output, targets, does);
  const parameters = parametersOf(options.parameter ?? []);
  const secrets = await secretsOf(io, options.secret ?? []);
  if (targets.length > 1 && options.yes !== true) await confirm(io, hostnamesOf(targets), does);
  return interruptible(io, async (interrupted) => {
    const { runs, failed } = await startRuns(api, script.id, targets, { parameters, secrets, interrupted });
    for (const { deviceId, hostname, code, message } of failed) {
      if (output.isJson) output.json({ type: 'refused', deviceId, hostname, code, message });
      else output.remark(`${hostname}: not started: ${message}`);
    }
    const offline = new Set(targets.flatMap(({ id, status }) => (status === 'offline' ? [id] : [])));
    const isLeft = options.detach === true;
    const code = await follow({ profile, output, runs, interrupted, offline, isLeft });
    return code === 0 && failed.length > 0 ? EXIT.finding : code;
  });
}
