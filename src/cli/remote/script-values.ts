import { ask, type CommandIo, textOf, Unanswered } from '../io.ts';
import { EXIT, RemoteFailure } from './profiles.ts';

/** The values of the parameters and secrets of a script, as the command line names them. */

/** @param given  each a name, `=` and a value */
export const parametersOf = (given: readonly string[]): Record<string, string> =>
  Object.fromEntries(given.map((text) => pairOf(text, '--parameter')));

function pairOf(text: string, option: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw new RemoteFailure(EXIT.failed, `${option} ${text} must be a name, = and a value.`);
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Values of secrets are asked for or come from a file: other users of the machine see arguments. */
export async function secretsOf(io: CommandIo, given: readonly string[]): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  for (const text of given) {
    if (text.includes('=')) {
      const [name, file] = pairOf(text, '--secret');
      secrets[name] = await secretOfFile(io, file);
    } else secrets[text] = await askedSecret(io, text);
  }
  return secrets;
}

/** The whole file, because a secret may be a key of many lines. The end of the last line is that of the file. */
async function secretOfFile(io: CommandIo, file: string): Promise<string> {
  return (await textOf(io, file)).replace(/\r?\n$/, '');
}

async function askedSecret(io: CommandIo, name: string): Promise<string> {
  try {
    return await ask(io, `Secret ${JSON.stringify(name)} (not shown): `, { isSecret: true });
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    if (error.reason === 'interrupted') throw new RemoteFailure(EXIT.interrupted, 'Nothing was started.');
    throw new RemoteFailure(
      EXIT.failed,
      `The secret ${name} cannot be asked for. Give a file that holds it: --secret ${name}=<file>.`,
    );
  }
}
