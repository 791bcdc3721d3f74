import { bounded, byRules } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { readUpgradeOffers, UPGRADES_CHANNEL } from './offer-cache.queries.ts';
import { type RolloutRouteParts, rolloutRoutes } from './rollout.routes.ts';
import { type RolloutWorkParts, scheduleRollouts } from './rollout.work.ts';
import { createUpgradeHistory, UpgradeEnds } from './upgrade.work.ts';
import { UpgradeOfferCache } from './upgrade-offer-cache.ts';
import { upgradeRetention } from './upgrade.model.ts';
import { targetRoutes, type UpgradeRouteParts, upgradeRoutes } from './upgrade.routes.ts';

export { assertRegisteredPins, ReleaseTrust } from './known-releases.ts';
export { upgradeTimeline } from './upgrade.queries.ts';
export { isRolledOut } from './rollout.queries.ts';
export { createUpgradeHistory, readUpgradeOffers, UpgradeOfferCache, UPGRADES_CHANNEL };

export const feature = defineFeature({
  name: 'agent-upgrades',
  routes: (parts: RolloutRouteParts & UpgradeRouteParts) => [
    targetRoutes,
    upgradeRoutes(parts),
    rolloutRoutes(parts),
  ],
  workers: (parts: ConstructorParameters<typeof UpgradeEnds>[0]) => ({
    'ends of upgrades': new UpgradeEnds(parts),
  }),
  jobs: (parts: RolloutWorkParts) => scheduleRollouts(parts),
  tables: [
    ...byRules(upgradeRetention),
    bounded('agent_rollouts', 'an operator starts them one by one'),
    bounded('agent_rollout_halts', 'each waits for an operator, who resumes or aborts the rollout'),
  ],
});
