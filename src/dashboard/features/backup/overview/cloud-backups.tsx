import { Anchor, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { BackupDashboard } from '../../../api/index.ts';
import { formatCount, PagedTable, Panel } from '../../../ui/index.ts';
import { ageText, Risks } from './risks.tsx';

/** The cloud backup configurations that are failing, late or unprotected. */
export function CloudBackups({ cloud }: { cloud: BackupDashboard['data']['cloud'] }) {
  const { configs, failing, late, unprotected, attentionItems } = cloud;
  return (
    <Panel title="Cloud backups">
      <Stack gap="sm">
        <Text size="sm">
          {formatCount(cloud.protected)} of {formatCount(configs)} configurations protect what they are about.{' '}
          {formatCount(failing)} failing, {formatCount(late)} late, {formatCount(unprotected)} without a good
          run.
        </Text>
        {attentionItems.length > 0 && (
          <PagedTable
            label="Cloud backups that need attention"
            rows={attentionItems}
            keyOf={({ configId }) => configId}
            columns={[
              {
                header: 'Configuration',
                isName: true,
                width: 180,
                cell: ({ configId, name }) => (
                  <Anchor
                    inherit
                    renderRoot={(props) => (
                      <Link {...props} to="/cloud-backup/jobs" search={{ config: configId }} />
                    )}
                  >
                    {name}
                  </Anchor>
                ),
              },
              { header: 'Points', align: 'right', width: 70, cell: ({ readinessScore }) => readinessScore },
              { header: 'Risks', cell: ({ riskFactors }) => <Risks risks={riskFactors} /> },
              {
                header: 'Last good run',
                width: 130,
                cell: ({ estimatedRpoMinutes }) => ageText(estimatedRpoMinutes),
              },
            ]}
          />
        )}
        <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/cloud-backup" />}>
          All cloud backup configurations
        </Anchor>
      </Stack>
    </Panel>
  );
}
