import { listEnforced } from '../../features/sso/index.ts';
import type { CommandIo } from '../io.ts';
import { withInstallation } from '../with-installation.ts';

export async function printEnforced(io: CommandIo): Promise<void> {
  const enforced = await withInstallation(io, { migrates: false }, ({ db }) => listEnforced(db));
  if (enforced.length === 0) io.stdout.write('No identity provider is enforced.\n');
  for (const { provider, owner, people } of enforced) {
    const named = people.filter(({ id }) => provider.breakGlassUserIds.includes(id));
    const lines = [
      `${provider.id}  ${provider.name} (${owner.kind} ${owner.name})`,
      `  governs ${people.length} ${people.length === 1 ? 'person' : 'people'}; last sign-in with it: ${provider.lastSuccessAt?.toISOString() ?? 'never'}`,
      `  break-glass: ${named.map(({ email }) => email).join(', ') || 'nobody'}`,
    ];
    io.stdout.write(`${lines.join('\n')}\n`);
  }
}
