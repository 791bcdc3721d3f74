import { Group, Paper, Title } from '@mantine/core';
import { Fragment, type ReactNode } from 'react';
import styles from './facts.module.css';

/** A part of the summary, with its heading. */
export function Card({
  title,
  action,
  children,
}: {
  title: string;
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <Paper
      withBorder
      p="sm"
      component="section"
      aria-label={title}
      {...(styles['card'] === undefined ? {} : { className: styles['card'] })}
    >
      <Group justify="space-between" mb={6} mih={22}>
        <Title order={2} size="h5">
          {title}
        </Title>
        {action}
      </Group>
      {children}
    </Paper>
  );
}

export type Fact = readonly [name: ReactNode, value: ReactNode];

/** Names and values. What is not known is left out. */
export function Facts({ facts, none = 'Nothing was reported.' }: { facts: readonly Fact[]; none?: string }) {
  const known = facts.filter(([, value]) => value !== undefined && value !== null && value !== '');
  if (known.length === 0) return <p className={styles['facts']}>{none}</p>;
  return (
    <dl className={styles['facts']}>
      {known.map(([name, value], place) => (
        // Names may occur twice, as two steps in the same second do.
        // oxlint-disable-next-line react/no-array-index-key
        <Fragment key={place}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </Fragment>
      ))}
    </dl>
  );
}
