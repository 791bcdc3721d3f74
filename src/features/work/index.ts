import { byRules, cascade, bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { workRetention } from './work.model.ts';

export {
  defineWork,
  PermanentWorkFailure,
  type StepOutcome,
  type WorkEnd,
  type WorkItem,
  type WorkRun,
} from './definition.ts';
export { Work } from './work.model.ts';
export { bindingsOfMany, findOpenWork, INSERT_MANY } from './new-work.queries.ts';
export { cancelMany, cancelUnbegun, markStalledWork, workTimeline } from './work.queries.ts';
export {
  endOfCommand,
  type EnqueueOptions,
  giveWork,
  giveWorkAgain,
  recordWork,
  WorkEngine,
} from './work.service.ts';
export type { WorkTiming } from './dispatcher.ts';

/** Long work of the server: what people wait for (docs/decisions/work.md). */
export const feature = defineFeature({
  name: 'work',
  tables: [
    ...byRules(workRetention),
    cascade('work_dependencies', 'work'),
    bounded('work_holders', 'a process has one, which goes an hour after its end'),
  ],
});
