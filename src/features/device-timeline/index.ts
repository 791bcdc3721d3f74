import { bounded } from '../../platform/db/retention-rule.ts';
import { CREATED_BY_PEOPLE, defineFeature } from '../feature.ts';
import type { TimelineSource } from '../timeline-source.ts';
import { timelineRoutes } from './timeline.routes.ts';

export const noteTimeline: TimelineSource = {
  kind: 'note',
  from: 'device_notes t where t.org_id = :orgId and t.device_id = :deviceId',
  id: 't.id::text',
  at: 't.created_at',
  by: 't.created_by',
  byName: 't.author_name',
  fields: { text: 't.text', isPinned: 't.is_pinned', editedAt: 't.edited_at' },
};

export const feature = defineFeature({
  name: 'device-timeline',
  routes: (parts: Parameters<typeof timelineRoutes>[0]) => [timelineRoutes(parts)],
  tables: [bounded('device_notes', CREATED_BY_PEOPLE)],
});
