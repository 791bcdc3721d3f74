import { Switch, Tooltip } from '@mantine/core';
import { IconCopy, IconPencil, IconPlus, IconTrash } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { type AlertRule, useApiChange, useList } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmDialog,
  Failure,
  formatCounted,
  ListPage,
  MenuEntry,
  RowMenu,
  TextLink,
  TwoLines,
  useAddress,
} from '../../ui/index.ts';
import { AlertsFrame, SeverityBadge } from '../alerts/index.ts';
import { targetText, useTargetNames } from '../device-targets/index.ts';
import { useOwnerName } from '../owners/index.ts';
import { CONDITION_CHOICES, conditionText } from './condition-form.ts';
import { RULE_AND_ALERT_READS, RuleDialog, type RuleTask } from './rule-dialog.tsx';

const route = getRouteApi('/signed-in/alerts/rules');
/** Alerts are raised and resolved by themselves. */
const REFRESH_MS = 15_000;

/** On which conditions Muster raises alerts, about which devices. */
export function RulesPage() {
  const address = useAddress(route.useSearch());
  const { q, kind, page = 1, dialog } = address.search;
  const { orgId } = scopeQuery(useScope());
  const refusal = useRefusal('organizations:write');
  const [chosen, setTask] = useState<RuleTask>();
  const task: RuleTask | undefined = dialog === 'new' && refusal === undefined ? { kind: 'new' } : chosen;
  const rules = useList(
    'GET /alert-rules',
    { query: { orgId, kind, search: q, page: String(page) } },
    REFRESH_MS,
  );
  const ownerName = useOwnerName();
  const names = useTargetNames((rules.data?.data ?? []).map(({ target }) => target));
  const enable = useApiChange('PATCH /alert-rules/{id}', { refreshes: RULE_AND_ALERT_READS });
  const newRule = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => address.put({ dialog: 'new' })}>
      New rule
    </Action>
  );
  return (
    <ListPage
      frame={AlertsFrame}
      title="Alert rules"
      description="On which conditions alerts are raised, about which devices, and how severe they are."
      actions={newRule}
      notice={enable.error !== null && <Failure error={enable.error} />}
      query={rules}
      noun="alert rules"
      keyOf={({ id }) => id}
      address={address}
      facets={[
        { kind: 'text', name: 'q', label: 'Search rules', placeholder: 'Search names', maxLength: 100 },
        {
          kind: 'choice',
          name: 'kind',
          label: 'Condition',
          any: 'Any condition',
          options: CONDITION_CHOICES,
          width: 190,
        },
      ]}
      empty={{
        title: 'No alert rules',
        text: 'Only what Muster reports by itself, such as a failed backup, raises alerts. Create a rule for devices that stay offline, disks that fill up, or events in their logs.',
        action: newRule,
      }}
      columns={[
        {
          header: 'Rule',
          isName: true,
          cell: ({ name, condition }) => (
            <TwoLines below={<Wrapped>{conditionText(condition)}</Wrapped>}>
              <Wrapped>{name}</Wrapped>
            </TwoLines>
          ),
        },
        { header: 'Organization', cell: (rule) => <Wrapped>{ownerName(rule)}</Wrapped> },
        { header: 'Devices', cell: ({ target }) => <Wrapped>{targetText(target, names)}</Wrapped> },
        { header: 'Severity', width: 105, cell: ({ severity }) => <SeverityBadge severity={severity} /> },
        { header: 'Open alerts', width: 85, align: 'right', cell: (rule) => <OpenAlerts rule={rule} /> },
        {
          header: 'Enabled',
          width: 85,
          cell: (rule) => (
            <EnabledSwitch
              rule={rule}
              refusal={refusal}
              wanted={
                enable.isPending && enable.variables.params.id === rule.id
                  ? enable.variables.body.enabled === true
                  : undefined
              }
              onChange={(enabled) => enable.mutate({ params: { id: rule.id }, body: { enabled } })}
            />
          ),
        },
        {
          header: 'Actions',
          width: 75,
          align: 'right',
          cell: (rule) => <RuleMenu rule={rule} refusal={refusal} onTask={setTask} />,
        },
      ]}
    >
      {task !== undefined && (
        <RuleDialog
          task={task}
          onClose={() => {
            setTask(undefined);
            if (dialog !== undefined) address.put({ dialog: undefined });
          }}
        />
      )}
    </ListPage>
  );
}

/** Names and texts of events may be long words. */
const Wrapped = ({ children }: { children: string }) => (
  <span style={{ overflowWrap: 'break-word' }}>{children}</span>
);

function OpenAlerts({ rule: { id, name, openAlerts } }: { rule: AlertRule }) {
  if (openAlerts === 0) return '0';
  return (
    <TextLink
      inherit
      to="/alerts"
      search={{ rule: id }}
      aria-label={`${formatCounted(openAlerts, 'open alert')} of “${name}”`}
    >
      {openAlerts}
    </TextLink>
  );
}

function EnabledSwitch({
  rule: { name, enabled },
  refusal,
  wanted,
  onChange,
}: {
  rule: AlertRule;
  refusal: string | undefined;
  /** What it is being set to. */
  wanted: boolean | undefined;
  onChange: (enabled: boolean) => void;
}) {
  const isRefused = refusal !== undefined;
  return (
    <Tooltip
      label={refusal}
      disabled={!isRefused}
      multiline
      maw={320}
      events={{ hover: true, focus: true, touch: true }}
    >
      {/* A disabled switch has no focus, and nobody would find the reason. */}
      <Switch
        aria-label={`“${name}” is enabled`}
        aria-disabled={isRefused}
        aria-busy={wanted !== undefined}
        {...(isRefused ? { 'aria-description': refusal } : {})}
        checked={wanted ?? enabled}
        onChange={({ currentTarget: { checked } }) => {
          if (!isRefused && wanted === undefined) onChange(checked);
        }}
      />
    </Tooltip>
  );
}

function RuleMenu({
  rule,
  refusal,
  onTask,
}: {
  rule: AlertRule;
  refusal: string | undefined;
  onTask: (task: RuleTask) => void;
}) {
  const [isDeleting, setDeleting] = useState(false);
  const remove = useApiChange('DELETE /alert-rules/{id}', { refreshes: RULE_AND_ALERT_READS });
  const { id, name } = rule;
  return (
    <>
      <RowMenu label={`Actions of “${name}”`}>
        <MenuEntry icon={IconPencil} refusal={refusal} onClick={() => onTask({ kind: 'change', rule })}>
          Edit
        </MenuEntry>
        <MenuEntry icon={IconCopy} refusal={refusal} onClick={() => onTask({ kind: 'copy', rule })}>
          Duplicate
        </MenuEntry>
        <MenuEntry icon={IconTrash} refusal={refusal} onClick={() => setDeleting(true)}>
          Delete
        </MenuEntry>
      </RowMenu>
      <ConfirmDialog
        opened={isDeleting}
        onClose={() => setDeleting(false)}
        title={`Delete “${name}”`}
        question={deletionText(rule)}
        confirm="Delete"
        run={() => remove.mutateAsync({ params: { id } })}
      />
    </>
  );
}

/** What becomes of the alerts. Those that Muster reports by itself do not need a rule. */
function deletionText({ condition, openAlerts }: AlertRule): string {
  const isReported = condition.kind === 'reported';
  const fate = isReported ? 'open' : 'resolved';
  const open =
    openAlerts === 0
      ? 'It has no open alerts.'
      : openAlerts === 1
        ? `Its open alert ${isReported ? 'stays' : 'is'} ${fate}.`
        : `Its ${formatCounted(openAlerts, 'open alert')} ${isReported ? 'stay' : 'are'} ${fate}.`;
  const later = isReported
    ? 'If no other rule is for the same report, Muster raises an alert about every device again.'
    : 'It raises no more alerts.';
  return `${open} ${later}`;
}
