import {
  effectiveSettings,
  resolveTarget,
  type KnownReleases,
  type Question,
} from '../../../../src/features/agent-upgrades/resolve-target.ts';
import { UPGRADE_CAPABILITY } from '../../../../src/protocol/index.ts';
import type { PinnedComponent } from '../../../../src/features/agent-upgrades/upgrade.schema.ts';
import type { AgentUpdateSettings } from '../../../../src/features/partners/index.ts';

/** Questions to the resolver, with all that decides about them. */

export type Build = 'trusted' | 'untrusted';
export interface Stock {
  promoted?: string | undefined;
  builds: Record<string, Build>;
}

/** Releases of one component for linux/x64; nothing exists of anything else. */
const stocked = (component: PinnedComponent, { promoted, builds }: Stock): KnownReleases => {
  const isKept = (asked: string, { osType, architecture }: { osType: string; architecture: string }) =>
    asked === component && osType === 'linux' && architecture === 'x64';
  return {
    promoted: (asked, platform) => (isKept(asked, platform) ? promoted : undefined),
    build: (asked, version, platform) => (isKept(asked, platform) ? builds[version] : undefined),
  };
};

export interface Case {
  component: PinnedComponent;
  current: string;
  organization: AgentUpdateSettings;
  partner: AgentUpdateSettings;
  stock: Stock;
  device: Question['device'];
  rollout: Question['rollout'];
  maintenance: Question['maintenance'];
  byHand: boolean;
  now: Date;
}

export const resolve = ({ organization, partner, stock, ...rest }: Case) =>
  resolveTarget({
    ...rest,
    settings: effectiveSettings({ organization, partner }),
    releases: stocked(rest.component, stock),
  });

/** A device that is upgraded from 1.0.0 to 1.1.0. */
export const PLAIN: Case = {
  component: 'agent',
  current: '1.0.0',
  organization: {},
  partner: {},
  stock: { promoted: '1.1.0', builds: { '1.0.0': 'trusted', '1.1.0': 'trusted' } },
  device: {
    osType: 'linux',
    architecture: 'x64',
    autoUpdate: true,
    capabilities: ['scripts.run', UPGRADE_CAPABILITY],
    connected: true,
  },
  rollout: undefined,
  maintenance: undefined,
  byHand: false,
  // A Sunday.
  now: new Date('2026-11-22T12:00:00Z'),
};
export const NIGHT = { days: ['mon' as const], start: '22:00', end: '04:00' };
