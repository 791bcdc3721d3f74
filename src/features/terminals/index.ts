import { bounded, byRules, cascade } from '../../platform/db/retention-rule.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { terminalRetention } from './terminal.model.ts';
import { terminalRoutes } from './terminal.routes.ts';
import { endUnseenTerminals } from './terminal.work.ts';

export { createTerminalStore } from './terminal-store.ts';
export { terminalTimeline } from './terminal.queries.ts';
export { SEALED_TERMINAL_KEY } from './terminal.model.ts';

export const feature = defineFeature({
  name: 'terminals',
  routes: (parts: Parameters<typeof terminalRoutes>[0]) => [terminalRoutes(parts)],
  jobs: endUnseenTerminals,
  tables: [
    bounded('terminal_settings', ONE_PER_ORGANIZATION),
    ...byRules(terminalRetention),
    cascade('terminal_parts', 'terminals'),
  ],
});
