import type { Answer } from '../../api/index.ts';

type Reason = Answer<'GET /groups/{id}/changes'>['data'][number]['reason'];

/** Why a device has joined or left a group. */
export const MEMBERSHIP_REASONS: Readonly<Record<Reason, string>> = {
  manual: 'By hand',
  group_created: 'The group was created',
  filter_match: 'It came to match the filter',
  filter_unmatch: 'It no longer matches the filter',
  filter_changed: 'The filter was changed',
  device_moved: 'It was moved to another organization',
  device_decommissioned: 'It was decommissioned',
};
