import { z } from 'zod';
import { ask, type CommandIo, Unanswered } from '../io.ts';
import { apiOf } from './api.ts';
import { EXIT, RemoteFailure, profilesFile, readProfiles, writeProfiles } from './profiles.ts';
import { createOutput, type Output, visible, table } from './output.ts';

/** `muster login`, `logout` and `profiles`. A key is typed or piped, never an argument, which other users could read. */

const Me = z.object({
  user: z.object({ name: z.string(), email: z.string() }),
  scope: z.string(),
  permissions: z.array(z.string()),
});
const KEY = /^mstr_[0-9A-Za-z]{20,100}$/;

export interface LoginOptions {
  server: string;
  profile: string;
  keyStdin?: boolean;
  plainHttp?: boolean;
  json?: boolean;
}

export async function login(io: CommandIo, options: LoginOptions): Promise<number> {
  const output = createOutput(io, options);
  const server = serverOf(options.server, options.plainHttp === true);
  const key = (options.keyStdin === true ? await firstLine(io) : await askedKey(io, server)).trim();
  if (!KEY.test(key)) {
    throw new RemoteFailure(EXIT.notSignedIn, 'This is not an API key. An API key begins with mstr_.');
  }
  const { user, scope, permissions } = await apiOf({ server, key }).get('/auth/me', Me);
  const known = await readProfiles(io);
  await writeProfiles(io, {
    current: options.profile,
    profiles: { ...known.profiles, [options.profile]: { server, key } },
  });
  if (output.isJson) output.json({ profile: options.profile, server, user, scope, permissions });
  else {
    output.line(
      visible(
        `Signed in to ${server} as ${user.name} <${user.email}>. Rights of the key: ${permissions.join(', ')}.`,
      ),
    );
    output.remark(`The key is stored in ${profilesFile(io)} as profile ${options.profile}.`);
  }
  return 0;
}

export async function logout(
  io: CommandIo,
  { profile, json }: { profile?: string; json?: boolean },
): Promise<number> {
  const output = createOutput(io, { json });
  const { current, profiles } = await readProfiles(io);
  const name = profile ?? current;
  if (!Object.hasOwn(profiles, name)) throw new RemoteFailure(EXIT.failed, `There is no profile ${name}.`);
  const { [name]: _removed, ...rest } = profiles;
  await writeProfiles(io, {
    current: name === current ? (Object.keys(rest)[0] ?? 'default') : current,
    profiles: rest,
  });
  const sentence = `The key of profile ${name} is deleted here. It stays valid until it is revoked on the server.`;
  if (output.isJson) output.json({ profile: name, removed: true });
  else output.line(visible(sentence));
  return 0;
}

export async function listProfiles(io: CommandIo, options: { json?: boolean }): Promise<number> {
  const output: Output = createOutput(io, options);
  const { current, profiles } = await readProfiles(io);
  const rows = Object.entries(profiles).map(([name, { server }]) => ({
    name,
    server,
    current: name === current,
  }));
  if (output.isJson) for (const row of rows) output.json(row);
  else if (rows.length === 0) output.remark('You are not signed in. Run "muster login --server <url>".');
  else {
    const cells = rows.map((row) => [row.current ? '*' : '', row.name, row.server]);
    for (const line of table(['', 'PROFILE', 'SERVER'], cells, output.width)) output.line(line);
  }
  return 0;
}

function serverOf(text: string, isPlainAllowed: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isOrigin = url !== undefined && url.href === `${url.origin}/` && /^https?:$/.test(url.protocol);
  if (!isOrigin) {
    throw new RemoteFailure(
      EXIT.failed,
      '--server must be the address of the server alone, such as https://rmm.example.com.',
    );
  }
  const isLocal = /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if (url.protocol === 'http:' && !isLocal && !isPlainAllowed) {
    throw new RemoteFailure(
      EXIT.failed,
      `Over ${url.origin} everybody on the way could read the key. Use https, or --plain-http if you know the way.`,
    );
  }
  return url.origin;
}

/** Longer than any key; the rest of the input is ignored. */
const INPUT_MAX = 4096;

async function firstLine({ stdin }: CommandIo): Promise<string> {
  let text = '';
  for await (const chunk of stdin.setEncoding('utf8')) {
    text += String(chunk);
    if (text.includes('\n') || text.length > INPUT_MAX) break;
  }
  return text.split('\n')[0] ?? '';
}

async function askedKey(io: CommandIo, server: string): Promise<string> {
  try {
    return await ask(io, `API key for ${server} (not shown): `, { isSecret: true });
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    const [exit, message] = NOT_TYPED[error.reason];
    throw new RemoteFailure(exit, message);
  }
}

const NOT_TYPED = {
  'no terminal': [EXIT.failed, 'There is no terminal to type the key at. Pipe it in, with --key-stdin.'],
  interrupted: [EXIT.interrupted, 'Nothing was changed.'],
  ended: [EXIT.failed, 'No key was given.'],
} as const;
