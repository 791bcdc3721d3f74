import { readFile } from 'node:fs/promises';
import { type CommandIo, fileOf } from '../io.ts';
import { EXIT, RemoteFailure } from './server/failure.ts';

/** Conditions as the user writes them. The server checks them: it knows the fields and the operators. */

export interface ConditionOptions {
  /** Such as `osType equals windows`; all of them must hold. */
  where?: string[];
  /** JSON in the form that filters have, or `@` and the name of a file. */
  conditions?: string;
}

/** Answers `undefined` where the user gave none. */
export async function conditionsOf(
  io: CommandIo,
  { where = [], conditions }: ConditionOptions,
): Promise<unknown> {
  const simple = where.map(condition);
  if (conditions === undefined) {
    return simple.length === 0 ? undefined : { operator: 'AND', conditions: simple };
  }
  const given = parsed(
    conditions.startsWith('@') ? await contentOf(fileOf(io, conditions.slice(1))) : conditions,
  );
  return simple.length === 0 ? given : { operator: 'AND', conditions: [given, ...simple] };
}

/** The value is JSON where it can be, such as 80 or ["windows","macos"], and text otherwise. */
function condition(text: string): { field: string; operator: string; value?: unknown } {
  const { field, operator, value } =
    /^\s*(?<field>\S+)\s+(?<operator>\S+)(?:\s+(?<value>.*\S))?\s*$/s.exec(text)?.groups ?? {};
  if (field === undefined || operator === undefined) {
    throw new RemoteFailure(
      EXIT.failed,
      `--where "${text}" must be a field, an operator and a value, such as "osType equals windows".`,
    );
  }
  return { field, operator, ...(value === undefined ? {} : { value: jsonOr(value) }) };
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new RemoteFailure(
      EXIT.failed,
      `--conditions is not valid JSON: ${error instanceof Error ? error.message : ''}`,
    );
  }
}

async function contentOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new RemoteFailure(EXIT.failed, `--conditions: ${error instanceof Error ? error.message : ''}`);
  }
}
