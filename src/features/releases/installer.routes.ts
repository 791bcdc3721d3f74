import { z } from 'zod';
import { NoBody, Document } from '../../platform/http/file-answer.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { isWellFormed } from '../../platform/secrets/tokens.ts';
import type { ReleaseLimits } from './release.routes.ts';
import { powershellInstaller } from './powershell-installer.ts';
import { shellInstaller } from './shell-installer.ts';
import type { PublicContext } from '../../platform/context.ts';
import { AgentRelease } from './release.model.ts';
import type { Installer } from './installer.ts';

/** Only the form is checked, which says nothing about whether the key is known. */
const InstallerQuery = z.object({
  key: z
    .string()
    .refine((key) => isWellFormed('enrollmentKey', key), 'must be an enrollment key')
    .optional()
    .describe('An enrollment key, which is then part of the script.'),
});

export interface InstallerParts {
  releaseLimits: ReleaseLimits;
  baseUrl: () => string;
}

export function installerRoutes({ releaseLimits, baseUrl }: InstallerParts): RouteGroup {
  const both = {
    method: 'get',
    // The one line that installs an agent is typed by people.
    bases: ['/', '/api/v1'],
    access: 'public',
    before: releaseLimits.installer,
    query: InstallerQuery,
    response: NoBody,
    media: ['text/plain'],
    errors: ['rate_limited'],
  } as const;
  const description =
    'A script that downloads the promoted executable, compares its SHA-256, enrolls the machine and installs the service. It is also served without `/api/v1`.';
  return {
    name: 'Installers',
    description: 'Scripts that make a machine a device in one line.',
    routes: [
      route({
        ...both,
        path: '/install.sh',
        summary: 'Installer for Linux and macOS',
        description,
        handler: ({ ctx, query }) => installerFor(ctx, shellInstaller, { server: baseUrl(), key: query.key }),
      }),
      route({
        ...both,
        path: '/install.ps1',
        summary: 'Installer for Windows',
        description,
        handler: ({ ctx, query }) =>
          installerFor(ctx, powershellInstaller, { server: baseUrl(), key: query.key }),
      }),
    ],
  };
}

/** The installer as a text that is not cached: it may hold a key, and it names the releases of this moment. */
async function installerFor(
  ctx: PublicContext,
  write: (installer: Installer) => string,
  { server, key = '' }: { server: string; key: string | undefined },
): Promise<Document> {
  const programs = await ctx.withSystem('find the promoted executables', (tx) =>
    AgentRelease.query(tx).where({ component: 'watchdog', promoted: true }).orderBy(['os', 'architecture']),
  );
  return new Document('text/plain; charset=utf-8', write({ server, key, programs }));
}
