import { randomBytes } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import { clock } from '../../clock.ts';
import { SqlErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { openPrivateFolder } from '../os/files/private-folder.ts';
import { streamText } from '../os/processes/child-process.ts';
import { answerIn, failureIn } from './answers.ts';

const OUTPUT_MAX = 4_000_000;
const LOGIN_SECONDS = 15;

export type RunSql = <S extends z.ZodType>(
  script: { instance: string; sql: string; answer: S },
  limits: { signal: AbortSignal; timeoutMs: number },
) => Promise<z.output<S>>;

interface SqlcmdOptions {
  /** Looks for the program each time, because it may be installed while the agent runs. */
  find: () => Promise<string | undefined>;
  /** A private folder, in which scripts lie while they run. */
  folder: string;
}

/** The default instance of a machine has a name that nobody connects by. */
const serverOf = (instance: string) => (instance.toUpperCase() === 'MSSQLSERVER' ? '.' : `.\\${instance}`);

/**
 * Runs scripts with sqlcmd, as the account of the agent. `-x`: nothing in a script is substituted. `-X`: it may not start
 * programs. `-y 0`: nothing is cut off at 256 characters.
 */
export const sqlcmd =
  ({ find, folder }: SqlcmdOptions): RunSql =>
  async ({ instance, sql, answer }, { signal, timeoutMs }) => {
    const program = await find();
    if (program === undefined) {
      throw new AgentError(SqlErrorCode.programMissing, 'sqlcmd is not installed on this machine.');
    }
    const own = await openPrivateFolder(path.join(folder, 'sql'));
    const file = path.join(own, `${randomBytes(8).toString('hex')}.sql`);
    await writeFile(file, sql, { flag: 'wx', mode: 0o600 });
    const limit = clock.timeoutSignal(timeoutMs);
    const ends = AbortSignal.any([signal, limit]);
    const args = [
      '-S',
      serverOf(instance),
      '-E',
      '-b',
      '-x',
      '-X',
      '-y',
      '0',
      '-f',
      '65001',
      '-l',
      `${LOGIN_SECONDS}`,
    ];
    let output = '';
    let hasFailed = false;
    try {
      for await (const text of streamText(program, [...args, '-i', file], { signal: ends, timeoutMs })) {
        // Beyond the limit it is read and dropped: a killed sqlcmd would leave a backup half written.
        if (output.length < OUTPUT_MAX) output += text;
      }
    } catch (error) {
      hasFailed = true;
      if (output.trim() === '') output = error instanceof Error ? error.message : String(error);
    } finally {
      await rm(file, { force: true });
    }
    signal.throwIfAborted();
    if (limit.aborted) {
      throw new AgentError(SqlErrorCode.failed, `SQL Server has not answered within ${timeoutMs / 1000} s.`);
    }
    if (hasFailed) throw failureIn(output);
    return answerIn(output, answer);
  };
