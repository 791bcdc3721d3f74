import { stat } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { readPrivateJson } from '../../agent/os/files/private-file.ts';
import { isSecureServer } from '../../agent/os/network/secure-server.ts';

/** The parts of the agent's credentials by which the watchdog speaks for the device, also where the agent cannot. */
const Identity = z.object({
  server: z.url(),
  deviceId: z.string(),
  token: z.string().regex(/^[\x21-\x7E]{1,200}$/),
  nextToken: z
    .string()
    .regex(/^[\x21-\x7E]{1,200}$/)
    .optional(),
});
export type Identity = z.infer<typeof Identity>;

/** The setting of the machine's administrator without which nothing is sent over an unencrypted connection. */
const Insecure = z.object({ insecureHttp: z.boolean().default(false) });

/** `undefined` where the machine is not enrolled, or where its server may not be spoken to. */
export async function deviceIdentity(dataDir: string): Promise<Identity | undefined> {
  const read = (name: string) => readPrivateJson(path.join(dataDir, name)).catch(() => undefined);
  const identity = Identity.safeParse(await read('credentials.json')).data;
  if (identity === undefined || isSecureServer(identity.server)) return identity;
  return Insecure.safeParse(await read('settings.json')).data?.insecureHttp === true ? identity : undefined;
}

/** Whether the machine has credentials, of whatever quality: without any, an agent has nothing to do. */
export const isEnrolled = async (dataDir: string): Promise<boolean> =>
  (await stat(path.join(dataDir, 'credentials.json')).catch(() => undefined)) !== undefined;
