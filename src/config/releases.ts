import { defineArea } from './area.ts';
import { flag } from './variables.ts';

/** Releases of the agent. */
export const releasesArea = defineArea({
  variables: {
    AGENT_AUTO_PROMOTE: flag(true).describe(
      'Devices upgrade to a stable release as soon as it is published. Off: to what an administrator promotes.',
    ),
  },
  settings: (env) => ({ autoPromotesReleases: env.AGENT_AUTO_PROMOTE }),
});
