import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature } from '../feature.ts';
import { databaseRoutes, sqlServerRoutes, vssRoutes } from './database.routes.ts';

export const feature = defineFeature({
  name: 'database-backup',
  routes: (parts: Parameters<typeof databaseRoutes>[0] & Parameters<typeof sqlServerRoutes>[0]) => [
    databaseRoutes(parts),
    sqlServerRoutes(parts),
    vssRoutes(parts),
  ],
  tables: [
    bounded(
      'backup_database_instances',
      'a device lists 64 at most, and those that it lists no more are removed',
    ),
  ],
});
