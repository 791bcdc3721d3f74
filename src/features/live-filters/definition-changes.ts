import type { DeviceHub } from '../../hub/index.ts';
import { CUSTOM_FIELD_CHANGED } from '../custom-fields/index.ts';
import { FILTER_CHANGED } from '../filters/index.ts';

/** Compiles the conditions of live device lists again when a filter or custom field that they use has changed. */
export function recompileOnDefinitionChanges(hub: Pick<DeviceHub, 'events' | 'rulesChanged'>): void {
  hub.events.subscribe(FILTER_CHANGED, ({ filterId }) =>
    hub.rulesChanged({ mayConcern: (_caller, request) => request.filterId === filterId }),
  );
  hub.events.subscribe(CUSTOM_FIELD_CHANGED, ({ orgId, key }) =>
    hub.rulesChanged({
      mayConcern: ({ scope, orgAccess, orgIds }) =>
        scope === 'system' || orgAccess === 'all' || orgIds.includes(orgId),
      affects: ({ customFields }) => customFields.has(key),
    }),
  );
}
