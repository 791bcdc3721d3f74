import { Alert, Button, NumberInput, Stack, Switch, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, apiQuery, useApiChange, type AuditRetention } from '../../api/index.ts';
import { useRefusal } from '../../session/index.ts';
import { Action, Failure, Loaded, When } from '../../ui/index.ts';

/** How long the audit entries of one organization are kept. */
export function AuditRetentionForm({ orgId }: { orgId: string }) {
  const retention = useQuery(
    apiQuery('GET /orgs/organizations/{id}/audit-retention', { params: { id: orgId } }),
  );
  return (
    <Loaded query={retention} what="Reading the retention">
      {(data) => <Form key={orgId} orgId={orgId} retention={data} />}
    </Loaded>
  );
}

function Form({ orgId, retention }: { orgId: string; retention: AuditRetention }) {
  const [days, setDays] = useState<number | string>(retention.retentionDays);
  const [archives, setArchives] = useState(retention.archiveToS3);
  const refusal = useRefusal({ permission: 'organizations:write', scopes: ['partner', 'system'] });
  const save = useApiChange('PUT /orgs/organizations/{id}/audit-retention', {
    refreshes: ['GET /orgs/organizations/{id}/audit-retention'],
  });
  const faults = save.error instanceof ApiError ? save.error.fields : {};
  const retentionDays = typeof days === 'number' ? days : 0;
  return (
    <Stack gap="sm" align="flex-start" maw={460}>
      <NumberInput
        label="Days that audit entries are kept"
        description="30 to 3650. Shorter deletes older entries at the next daily cleanup, for good."
        min={30}
        max={3650}
        clampBehavior="none"
        value={days}
        onChange={setDays}
        error={faults['retentionDays']}
      />
      <Switch
        label="Copy entries to the archive before they are removed"
        description="Where the copy fails, the entries are kept."
        checked={archives}
        onChange={(event) => setArchives(event.currentTarget.checked)}
        error={faults['archiveToS3']}
      />
      {retention.cleanup === 'off' && (
        <Alert color="blue">
          This server removes no audit entries: the setting AUDIT_ADMIN_DATABASE_URL is not set.
        </Alert>
      )}
      {retention.archive === 'off' && archives && (
        <Alert color="orange">This server has no archive, so nothing would be removed.</Alert>
      )}
      {retention.lastFailure !== null && (
        <Alert
          styles={{ title: { color: 'var(--mantine-color-text)' } }}
          color="red"
          title="The last cleanup failed"
        >
          {retention.lastFailure.reason} (<When at={retention.lastFailure.at} />)
        </Alert>
      )}
      <Text size="sm" component="div">
        Last cleanup: <When at={retention.lastCleanupAt} />
      </Text>
      {save.error !== null && <Failure error={save.error} />}
      {save.isSuccess && <Alert color="teal">The retention is saved.</Alert>}
      {refusal === undefined ? (
        <Button
          loading={save.isPending}
          onClick={() =>
            save.mutate({ params: { id: orgId }, body: { retentionDays, archiveToS3: archives } })
          }
        >
          Save audit retention
        </Button>
      ) : (
        <Action refusal={refusal} onClick={() => undefined}>
          Save audit retention
        </Action>
      )}
    </Stack>
  );
}
