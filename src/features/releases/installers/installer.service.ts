import type { PublicContext } from '../../../platform/context.ts';
import { Document } from '../../../platform/http/browser-answer.ts';
import { AgentRelease } from '../registry/release.model.ts';
import type { Installer } from './installer.ts';

/** The installer as a text that nobody keeps: it may hold a key, and it names the releases of this moment. */
export async function installerFor(
  ctx: PublicContext,
  write: (installer: Installer) => string,
  { server, key = '' }: { server: string; key: string | undefined },
): Promise<Document> {
  const programs = await ctx.withSystem('find the promoted executables', (tx) =>
    AgentRelease.query(tx).where({ component: 'watchdog', promoted: true }).orderBy(['os', 'architecture']),
  );
  return new Document('text/plain; charset=utf-8', write({ server, key, programs }));
}
