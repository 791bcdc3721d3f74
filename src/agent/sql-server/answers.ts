import type { z } from 'zod';
import { SqlErrorCode } from '../../protocol/index.ts';
import { AgentError } from '../core/agent-error.ts';
import { printable } from '../core/plain-text.ts';

/** Reads what sqlcmd prints. Its words are in the language of the server, its numbers are not. */

export const MARK = 'MUSTER-ANSWER:';
export const REFUSAL = 'MUSTER-REFUSAL:';

/** The errors of SQL Server that people can do something about. */
const BY_NUMBER: ReadonlyMap<number, string> = new Map([
  [229, SqlErrorCode.denied],
  [262, SqlErrorCode.denied],
  [916, SqlErrorCode.denied],
  [911, SqlErrorCode.databaseMissing],
  [3041, SqlErrorCode.failed],
  [3201, SqlErrorCode.pathUnusable],
  [3203, SqlErrorCode.pathUnusable],
  [3241, SqlErrorCode.pathUnusable],
  [112, SqlErrorCode.noRoom],
  [3257, SqlErrorCode.noRoom],
  [1105, SqlErrorCode.noRoom],
  [3035, SqlErrorCode.chainBroken],
  [3117, SqlErrorCode.chainBroken],
  [3136, SqlErrorCode.chainBroken],
  [4214, SqlErrorCode.chainBroken],
  [4305, SqlErrorCode.chainBroken],
  [4326, SqlErrorCode.chainBroken],
  [4208, SqlErrorCode.simpleRecovery],
  [18456, SqlErrorCode.denied],
  [18452, SqlErrorCode.denied],
]);

/** `Msg 4208, Level 16, State 1, …` in any language: three numbers, each after a word. */
const HEADING = /^\P{Nd}{1,40}?(\d{1,6}), \P{Nd}{1,40}?(\d{1,3}), \P{Nd}{1,40}?(\d{1,3}), /u;

interface SqlMessage {
  number: number;
  text: string;
}

export function messagesIn(output: string): SqlMessage[] {
  const lines = output.split(/\r?\n/);
  return lines.flatMap((line, at) => {
    const [, number, level] = HEADING.exec(line.slice(0, 300)) ?? [];
    return number === undefined || Number(level) < 11
      ? []
      : [{ number: Number(number), text: lines[at + 1] ?? '' }];
  });
}

/** Why a script has failed. */
export function failureIn(output: string): AgentError {
  const at = output.lastIndexOf(REFUSAL);
  if (at !== -1) {
    const [, code = '', text = ''] =
      /^([A-Z_]{1,64}):([^\r\n]{0,500})/.exec(output.slice(at + REFUSAL.length)) ?? [];
    const codes: readonly string[] = Object.values(SqlErrorCode);
    if (codes.includes(code)) return new AgentError(code, printable(text, 500));
  }
  const messages = messagesIn(output);
  const known = messages.find(({ number }) => BY_NUMBER.has(number)) ?? messages[0];
  if (known === undefined) {
    const code = /HResult|SQLSTATE|ODBC|provider/i.test(output)
      ? SqlErrorCode.unreachable
      : SqlErrorCode.failed;
    return new AgentError(code, `SQL Server: ${printable(output.trim(), 500)}`);
  }
  const code = BY_NUMBER.get(known.number) ?? SqlErrorCode.failed;
  return new AgentError(code, `SQL Server ${known.number}: ${printable(known.text, 500)}`);
}

/** What a script has selected as its answer, which may be printed in several pieces. */
export function answerIn<S extends z.ZodType>(output: string, schema: S): z.output<S> {
  const at = output.lastIndexOf(MARK);
  if (at === -1) throw new AgentError(SqlErrorCode.failed, 'SQL Server has printed no answer.');
  const json = output
    .slice(at + MARK.length)
    .replaceAll(/[\r\n]/g, '')
    .trim();
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new AgentError(SqlErrorCode.failed, 'SQL Server has printed an answer that cannot be read.');
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AgentError(SqlErrorCode.failed, 'SQL Server has answered in another form.');
}
