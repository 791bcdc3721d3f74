import { createAuditTrail } from '../features/audit/index.ts';
import { type GovernedPerson, unlockProvider, listEnforced } from '../features/sso/index.ts';
import type { CommandIo } from './io.ts';
import { withInstallation } from './with-installation.ts';

/** More names than this are counted instead of printed. */
const NAMES_MAX = 50;

export async function unlock(io: CommandIo, providerId: string): Promise<void> {
  const unlocked = await withInstallation(io, { migrates: false }, ({ db, log }) =>
    // The entry is sealed by a running server, or by the next one that starts.
    unlockProvider({ db, log, audit: createAuditTrail({ wake() {} }) }, providerId),
  );
  if (unlocked === undefined) throw new Error(`There is no identity provider ${providerId}.`);
  const { provider, owner, people, wasEnforced } = unlocked;
  const name = `${provider.name} (${owner.kind} ${owner.name})`;
  if (!wasEnforced) {
    io.stdout.write(`${name} was not enforced. Nothing was changed.\n`);
    return;
  }
  io.stdout.write(`${[`${name} is no longer enforced.`, ...affected(people)].join('\n')}\n`);
}

function affected(people: readonly GovernedPerson[]): string[] {
  const rest = people.length - NAMES_MAX;
  return [
    `${people.length} ${people.length === 1 ? 'person' : 'people'} may sign in with a password again:`,
    ...people
      .slice(0, NAMES_MAX)
      .map(
        ({ email, hasPassword }) =>
          `  ${email}${hasPassword ? '' : '  (has no password yet: "Forgot password" sends a link)'}`,
      ),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
  ];
}

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
