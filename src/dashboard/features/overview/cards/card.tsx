import { Anchor } from '@mantine/core';
import { Link, type LinkProps } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { Panel } from '../../../ui/index.ts';

interface CardProps {
  title: string;
  more?: { label: string; to: NonNullable<LinkProps['to']> };
  children: ReactNode;
}

/** A part of the overview, with the way to the page that has more. */
export const Card = ({ title, more, children }: CardProps) => (
  <Panel
    title={title}
    aside={
      more !== undefined && (
        <Anchor size="sm" renderRoot={(props) => <Link {...props} to={more.to} />}>
          {more.label}
        </Anchor>
      )
    }
  >
    {children}
  </Panel>
);
