import { readFileSync } from 'node:fs';
import path from 'node:path';
import { MIGRATIONS_DIR } from './platform/db/migrations.ts';

const packageJson = JSON.parse(
  readFileSync(path.join(path.dirname(MIGRATIONS_DIR), 'package.json'), 'utf8'),
) as { version: string };

/** The running release. `SVC_VERSION` selects images; this is the release inside. */
export const VERSION = packageJson.version;

export const API_INFO = {
  title: 'Muster',
  version: VERSION,
  description:
    'Multi-tenant device management. Sign in with POST /auth/login and send the access token as bearer token. ' +
    'Every failure has the same body: `error` for people, `code` for programs, `requestId` for the log. ' +
    'A day of UTC stands for a time wherever a time is taken, and null leaves out an optional field. ' +
    'The socket messages are described at /docs/sockets.',
};
