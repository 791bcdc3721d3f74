import type { Context } from '../../../platform/context.ts';
import { invalid } from '../../../platform/errors.ts';
import { compareVersions } from '../registry/version.ts';
import { AgentRelease } from '../registry/release.model.ts';
import { PinnedComponent } from './target.schema.ts';

/** Named in the refusal of another one. */
const LISTED_MAX = 50;

/** The pins of `settings.agentUpdates`, as a request sends them. */
export type SentPins = { [C in PinnedComponent]?: string | null | undefined } | null | undefined;

/** Throws unless each version that is pinned is registered for its component: nothing could be upgraded to another one. */
export async function assertRegisteredPins({ tx }: Pick<Context, 'tx'>, pins: SentPins): Promise<void> {
  for (const component of PinnedComponent.options) {
    const pin = pins?.[component];
    if (pin == null || pin === 'latest') continue;
    const rows = await AgentRelease.query(tx).where({ component }).distinct('version');
    const versions = rows.map(({ version }) => version).toSorted((a, b) => compareVersions(b, a));
    if (versions.some((version) => version === pin)) continue;
    const known = versions.slice(0, LISTED_MAX).join(', ');
    const more = versions.length > LISTED_MAX ? ', …' : '';
    throw invalid(
      `body.settings.agentUpdates.pins.${component}`,
      versions.length === 0
        ? `must be "latest": no version of the ${component} is registered`
        : `must be "latest" or a registered version: ${known}${more}`,
    );
  }
}
