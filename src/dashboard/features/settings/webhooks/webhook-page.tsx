import { Alert, Anchor, Group, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type Webhook } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, ConfirmAction, Failure, formatCounted, Loaded, Panel, When } from '../../../ui/index.ts';
import { SettingsFrame } from '../settings-frame.tsx';
import { Deliveries } from './deliveries.tsx';
import { NewSecret } from './new-secret.tsx';
import { WebhookDialog } from './webhook-dialog.tsx';
import { WEBHOOK_READS } from './webhook-reads.ts';
import { disabledText, WebhookStatus } from './webhook-status.tsx';

const route = getRouteApi('/signed-in/settings/webhooks/$webhookId');

/** One webhook: how it does, and the log of what was sent to it. */
export function WebhookPage() {
  const { webhookId: id } = route.useParams();
  return (
    <SettingsFrame
      title="Webhook"
      description={
        <Anchor inherit renderRoot={(props) => <Link {...props} to="/settings/webhooks" />}>
          All webhooks
        </Anchor>
      }
      requires="webhooks:read"
    >
      <Whole key={id} id={id} />
    </SettingsFrame>
  );
}

function Whole({ id }: { id: string }) {
  const webhook = useQuery(apiQuery('GET /webhooks/{id}', { params: { id } }));
  return (
    <Loaded query={webhook} what="Reading the webhook">
      {(data) => (
        <Stack>
          <Summary webhook={data} />
          <Deliveries webhook={data} />
        </Stack>
      )}
    </Loaded>
  );
}

function Summary({ webhook }: { webhook: Webhook }) {
  const names = useNames();
  const navigate = useNavigate();
  const refusal = useRefusal('webhooks:write');
  const deleteRefusal = useRefusal('webhooks:delete');
  const [isChanging, setChanging] = useState(false);
  const [secret, setSecret] = useState<string>();
  const params = { id: webhook.id };
  const test = useApiChange('POST /webhooks/{id}/test');
  const rotate = useApiChange('POST /webhooks/{id}/rotate-secret', { refreshes: WEBHOOK_READS });
  const remove = useApiChange('DELETE /webhooks/{id}', { refreshes: ['GET /webhooks'] });
  const why = disabledText(webhook);
  return (
    <Panel title={webhook.name} aside={<WebhookStatus status={webhook.status} />}>
      <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
        {webhook.eventTypes.join(', ')} of{' '}
        {webhook.orgId === null ? 'all organizations' : names.organization(webhook.orgId)} to {webhook.url}
      </Text>
      <Text size="sm" c="dimmed" component="div">
        Last success: <When at={webhook.lastSuccessAt} />
        {webhook.failingSince !== null && (
          <>
            . {formatCounted(webhook.failures, 'attempt')} failed in a row, the first{' '}
            <When at={webhook.failingSince} />
          </>
        )}
        {webhook.previousSecretUntil !== null && (
          <>
            . The previous secret ends <When at={webhook.previousSecretUntil} />
          </>
        )}
      </Text>
      {why !== undefined && (
        <Alert color="red" title="The server has disabled this webhook">
          {why}
        </Alert>
      )}
      {secret !== undefined && <NewSecret secret={secret} />}
      <Group gap="xs">
        <Action
          variant="default"
          refusal={refusal}
          loading={test.isPending}
          onClick={() => test.mutate({ params })}
        >
          Send a test
        </Action>
        <Action variant="default" refusal={refusal} onClick={() => setChanging(true)}>
          Change
        </Action>
        <ConfirmAction
          variant="default"
          color="blue"
          refusal={refusal}
          title="Replace the secret"
          question="Requests are signed with both secrets for 24 hours, so that the receiver can change over."
          confirm="Replace"
          run={async () => setSecret((await rotate.mutateAsync({ params, body: {} })).secret)}
        >
          Replace the secret
        </ConfirmAction>
        <ConfirmAction
          variant="default"
          refusal={deleteRefusal}
          title={`Delete “${webhook.name}”`}
          question="The webhook and its log are deleted. This cannot be undone."
          confirm="Delete"
          run={async () => {
            await remove.mutateAsync({ params });
            await navigate({ to: '/settings/webhooks' });
          }}
        >
          Delete
        </ConfirmAction>
      </Group>
      {test.error !== null && <Failure error={test.error} />}
      {test.data !== undefined && <TestResult result={test.data} />}
      {isChanging && <WebhookDialog webhook={webhook} onClose={() => setChanging(false)} />}
    </Panel>
  );
}

interface Result {
  ok: boolean;
  responseStatus: number | null;
  durationMs: number;
  error: string | null;
}

function TestResult({ result: { ok, responseStatus, durationMs, error } }: { result: Result }) {
  return (
    <Alert
      styles={{ title: { color: 'var(--mantine-color-text)' } }}
      color={ok ? 'teal' : 'red'}
      title={ok ? 'The receiver took the test' : 'The test failed'}
      role="status"
    >
      {error ?? `It answered ${responseStatus} after ${durationMs} ms.`}
    </Alert>
  );
}
