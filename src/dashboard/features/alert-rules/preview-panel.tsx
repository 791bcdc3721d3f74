import { Button, Group, Stack, Text } from '@mantine/core';
import { IconEye } from '@tabler/icons-react';
import { useState } from 'react';
import { type AlertRulePreview, type Input, useApiChange } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { Failure, formatSpan, Notice, PagedTable, PartNote, TwoLines, When } from '../../ui/index.ts';
import { PartTitle } from './condition-fields.tsx';
import styles from './preview-panel.module.css';
import { beforeText, dayBars, incompleteText, LIMITS_TEXT, previewText } from './rule-preview.ts';

type Asked = Input<'POST /alert-rules/preview'>['body'];

/** So many of the newest alerts are shown. */
const SHOWN = 20;

/** Which alerts the rule of the form would have raised. What it says is marked as soon as it no longer fits the form. */
export function PreviewPanel({ body }: { body: Asked }) {
  const preview = useApiChange('POST /alert-rules/preview');
  const [asked, setAsked] = useState<string>();
  const [askedKind, setAskedKind] = useState<string>(body.condition.kind);
  const current = JSON.stringify(body);
  const isOutdated = asked !== undefined && asked !== current;
  const ask = (form: HTMLFormElement | null) => {
    if (form !== null && !hasCondition(form)) return;
    setAsked(current);
    setAskedKind(body.condition.kind);
    preview.mutate({ body });
  };
  return (
    <Stack gap="xs" component="section" aria-label="Preview">
      <Group justify="space-between">
        <PartTitle>What it would have done</PartTitle>
        <Button
          variant="default"
          leftSection={<IconEye size={14} aria-hidden />}
          loading={preview.isPending}
          onClick={({ currentTarget }) => ask(currentTarget.form)}
        >
          Preview the last 7 days
        </Button>
      </Group>
      <Stack gap="xs" aria-live="polite">
        {preview.error !== null && <Failure error={preview.error} />}
        {isOutdated && (preview.isSuccess || preview.isError) && (
          <Notice tone="warning">The rule has changed since this preview. Ask for it again.</Notice>
        )}
        {preview.isSuccess && <Outcome preview={preview.data} kind={askedKind} />}
      </Stack>
    </Stack>
  );
}

/** Whether the condition is filled in. A preview needs no name, and the API says what is missing of the devices. */
const hasCondition = (form: HTMLFormElement) =>
  [...form.querySelectorAll<HTMLInputElement>('[data-condition] input')].every((input) =>
    input.reportValidity(),
  );

function Outcome({ preview, kind }: { preview: AlertRulePreview; kind: string }) {
  const names = useNames();
  const missing = incompleteText(preview, kind);
  const before = beforeText(preview);
  const shown = preview.alerts.slice(0, SHOWN);
  return (
    <>
      <Text size="sm" fw={600}>
        {previewText(preview)}
      </Text>
      {before !== undefined && <Text size="sm">{before}</Text>}
      {missing !== undefined && <Notice tone="warning">{missing}</Notice>}
      {preview.count > 0 && <Days preview={preview} />}
      {shown.length > 0 && (
        <PagedTable
          label="The newest alerts of the preview"
          rows={shown}
          keyOf={({ deviceId, raisedAt, what }) => `${deviceId} ${raisedAt} ${what}`}
          columns={[
            {
              header: 'Device',
              isName: true,
              cell: ({ deviceName, orgId }) => (
                <TwoLines below={names.organization(orgId)}>{deviceName}</TwoLines>
              ),
            },
            { header: 'Raised', width: 130, cell: ({ raisedAt }) => <When at={raisedAt} /> },
            {
              header: 'Lasted',
              width: 110,
              cell: ({ raisedAt, resolvedAt }) => formatSpan(raisedAt, resolvedAt) ?? 'Still lasts',
            },
            { header: 'What', cell: ({ what }) => what },
          ]}
        />
      )}
      <PartNote listed={shown.length} total={preview.count} which="newest" />
      <Text size="xs" c="dimmed">
        {LIMITS_TEXT}
      </Text>
    </>
  );
}

/** A bar for each day, with its number. */
function Days({ preview }: { preview: AlertRulePreview }) {
  return (
    <div>
      <ul className={styles['days']} aria-label="Alerts of each day">
        {dayBars(preview).map(({ day, label, count, share }) => (
          <li key={day} className={styles['day']}>
            <div className={styles['room']} aria-hidden>
              <div className={styles['bar']} style={{ height: `${share * 100}%` }} />
            </div>
            <strong>{count}</strong>
            <span>{label}</span>
          </li>
        ))}
      </ul>
      <Text size="xs" c="dimmed">
        Days in UTC.
      </Text>
    </div>
  );
}
