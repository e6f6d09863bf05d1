"use strict";(self.rspackChunknbmem=self.rspackChunknbmem||[]).push([[1],{22(e,n,o){var t=o(23),r=o.n(t),a=o(24),i=o.n(a),d=o(25),s=o(26),l=i()(r());l.i(d.A),l.i(s.A),l.push([e.id,`
`,""]),o.d(n,{},{A:l})},26(e,n,o){var t=o(23),r=o.n(t),a=o(24),i=(o.n(a))()(r());i.push([e.id,`/* Badges under prompts, the mark of a jump, the item of the status bar. */

/* From under the prompt's line to the end of the input: no room is taken, and a second line of
   text shows only where the input has two lines. */
.nbmem-badge-place {
  position: absolute;
  top: calc(
    var(--jp-code-padding) + var(--jp-border-width) + var(--jp-code-font-size) *
      var(--jp-code-line-height)
  );
  bottom: -6px;
  left: 0;
  width: calc(var(--jp-cell-collapser-width) + var(--jp-cell-prompt-width));
  box-sizing: border-box;
  padding-right: 2px;
  display: flex;
  justify-content: flex-end;
  align-items: flex-start;
  pointer-events: none;
  z-index: 1;
}

.nbmem-badge {
  --nbmem-level: var(--jp-border-color1);

  display: flex;
  /* What has no line of its own goes out of sight to the left. */
  flex-flow: column wrap-reverse;
  place-content: flex-start;
  align-items: flex-start;
  column-gap: 4px;
  box-sizing: border-box;
  width: 62px;
  max-height: min(100%, 24px);
  overflow: hidden;
  margin: 0;
  padding: 0 3px 0 1px;
  border: none;
  border-radius: 2px;
  background: color-mix(in srgb, var(--nbmem-level) 14%, transparent);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: 10px;
  font-variant-numeric: tabular-nums;
  letter-spacing: -0.1px;
  line-height: 12px;
  white-space: nowrap;
  cursor: pointer;
  pointer-events: auto;
}

.nbmem-badge > span {
  flex: 0 0 12px;
  width: 100%;
  overflow: hidden;
  text-align: right;
}

.nbmem-badge:hover {
  background: color-mix(in srgb, var(--nbmem-level) 34%, transparent);
}

.nbmem-badge:focus-visible {
  outline: 1px solid var(--jp-brand-color1);
}

.nbmem-badge-low {
  --nbmem-level: var(--jp-success-color1);
}

.nbmem-badge-middle {
  --nbmem-level: var(--jp-warn-color1);
}

.nbmem-badge-high {
  --nbmem-level: var(--jp-error-color1);
}

.nbmem-badge svg {
  width: 8px;
  height: 8px;
  margin-right: 2px;
  vertical-align: -0.5px;
}

.nbmem-badge .nbmem-line {
  fill: none;
  stroke: var(--nbmem-level);
  stroke-width: 1.4;
}

.nbmem-badge .nbmem-fill {
  fill: var(--nbmem-level);
  stroke: none;
}

.nbmem-badge .nbmem-gap {
  fill: none;
  stroke: var(--jp-layout-color0);
  stroke-width: 1.3;
}

.nbmem-badge-unknown .nbmem-line {
  stroke: var(--jp-ui-font-color2);
}

/* JupyterLab gives prompts this width when it presents. */
.jp-mod-presentationMode .nbmem-badge-place {
  width: calc(var(--jp-cell-collapser-width) + 110px);
}

@media only screen and (width <= 760px) {
  /* The prompt has a line of its own here. */
  .nbmem-badge-place {
    top: 9px;
    left: calc(var(--jp-cell-collapser-width) + var(--jp-cell-prompt-width));
    width: auto;
  }

  .nbmem-badge {
    flex-flow: row;
    width: auto;
    max-height: 12px;
  }

  .nbmem-badge > span {
    flex: none;
    width: auto;
  }
}

@media print {
  .nbmem-badge-place {
    display: none;
  }
}

/* A jump */

.jp-Notebook .jp-Cell.nbmem-jumped {
  z-index: 1;
  animation: nbmem-jumped 2s ease-out;
}

@keyframes nbmem-jumped {
  0%,
  40% {
    background: color-mix(in srgb, var(--jp-brand-color1) 22%, transparent);
    box-shadow: 0 0 0 2px var(--jp-brand-color1);
  }
}

@media (prefers-reduced-motion: reduce) {
  .jp-Notebook .jp-Cell.nbmem-jumped {
    animation: none;
    box-shadow: 0 0 0 2px var(--jp-brand-color1);
  }
}

/* The status bar */

.nbmem-status[hidden],
.nbmem-status-bar[hidden] {
  display: none;
}

.nbmem-status button {
  display: flex;
  align-items: center;
  gap: 6px;
  height: 100%;
  padding: 0 4px;
  border: none;
  background: none;
  color: inherit;
  font: inherit;
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
  cursor: pointer;
}

.nbmem-status button:hover {
  background: var(--jp-layout-color3);
}

.nbmem-status button:focus-visible {
  outline: 1px solid var(--jp-brand-color1);
  outline-offset: -1px;
}

.nbmem-status-bar {
  display: inline-block;
  width: 40px;
  height: 6px;
  overflow: hidden;
  border: 1px solid var(--jp-border-color0);
  border-radius: 3px;
}

.nbmem-status-bar > span {
  display: block;
  height: 100%;
  background: var(--jp-brand-color1);
}

.nbmem-status-bar > .nbmem-status-high {
  background: repeating-linear-gradient(
    135deg,
    var(--jp-error-color1) 0 3px,
    color-mix(in srgb, var(--jp-error-color1) 60%, transparent) 3px 5px
  );
}

/* As wide as the usual texts, so that nothing beside it moves: \`1023 MiB of 7.93 GiB\`. */
.nbmem-status-text {
  min-width: 17ch;
  text-align: left;
}
`,""]),o.d(n,{},{A:i})},25(e,n,o){var t=o(23),r=o.n(t),a=o(24),i=(o.n(a))()(r());i.push([e.id,`/* The sidebar's panel: usable from 250 px to the width of the page. */

.nbmem-SidePanel {
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  display: flex;
  container-type: inline-size;
  flex-direction: column;
  font-size: var(--jp-ui-font-size1);
  min-width: 220px;
  overflow: hidden auto;
}

.nbmem-Header {
  align-items: center;
  border-bottom: var(--jp-border-width) solid var(--jp-border-color2);
  display: flex;
  flex: none;
  gap: 2px;
  min-height: 32px;
  padding: 0 4px 0 12px;
}

.nbmem-Header-whose {
  display: flex;
  flex: 1 1 auto;
  min-width: 0;
  white-space: pre;
}

.nbmem-Header-name,
.nbmem-Header-end {
  font-weight: 600;
}

.nbmem-Header-name {
  flex: 0 1 auto;
  overflow: hidden;
  text-overflow: ellipsis;
}

.nbmem-Header-end,
.nbmem-Header-status {
  flex: none;
}

.nbmem-Header-kernel,
.nbmem-Header-status {
  color: var(--jp-ui-font-color2);
}

.nbmem-Header-kernel {
  flex: 0 10 auto;
  overflow: hidden;
  text-overflow: ellipsis;
}

.nbmem-Header-button {
  align-items: center;
  background: none;
  border: 0;
  border-radius: var(--jp-border-radius);
  color: inherit;
  cursor: pointer;
  display: flex;
  flex: none;
  height: 24px;
  justify-content: center;
  padding: 0;
  width: 24px;
}

.nbmem-Header-button:hover:enabled {
  background: var(--jp-layout-color2);
}

.nbmem-Header-button:disabled {
  cursor: default;
  opacity: 0.4;
}

.nbmem-Header-button:focus-visible,
.nbmem-Says-button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: -1px;
}

/* Two lines whose height stays while figures change. */
.nbmem-Strip {
  border-bottom: var(--jp-border-width) solid var(--jp-border-color2);
  flex: none;
  font-variant-numeric: tabular-nums;
  line-height: 1.4;
  padding: 6px 12px;
}

.nbmem-Strip-line {
  display: flex;
  gap: 6px;
}

.nbmem-Strip-title {
  flex: 1 1 auto;
  min-height: 1.4em;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}

.nbmem-Strip-age {
  color: var(--jp-ui-font-color2);
  flex: none;
}

.nbmem-Strip-dot {
  color: var(--jp-ui-font-color2);
}

.nbmem-Strip[data-running='true'] .nbmem-Strip-dot {
  color: var(--jp-brand-color1);
}

.nbmem-Strip-text {
  color: var(--jp-ui-font-color2);
  min-height: 1.4em;
}

@container (width < 340px) {
  .nbmem-Header-kernel {
    display: none;
  }

  .nbmem-Strip-text {
    font-size: var(--jp-ui-font-size0);
    line-height: calc(1.4 * var(--jp-ui-font-size1));
    min-height: calc(1.4 * var(--jp-ui-font-size1));
  }
}

.nbmem-Says {
  flex: none;
  padding: 12px;
}

.nbmem-Says-sentence {
  line-height: 1.5;
  margin: 0;
  overflow-wrap: anywhere;
}

.nbmem-Says-sentence code {
  background: var(--jp-layout-color2);
  border-radius: var(--jp-border-radius);
  padding: 1px 4px;
}

.nbmem-Says-button {
  margin-top: 10px;
}

.nbmem-Says-button[aria-disabled='true'] {
  cursor: progress;
  opacity: 0.6;
}

/* What takes its time moves. */
.nbmem-Says[aria-busy='true']::after {
  animation: nbmem-busy 1.6s ease-in-out infinite;
  background: var(--jp-brand-color1);
  content: '';
  display: block;
  height: 2px;
  margin-top: 12px;
  width: 30%;
}

@keyframes nbmem-busy {
  50% {
    transform: translateX(233%);
  }
}

@media (prefers-reduced-motion: reduce) {
  .nbmem-Says[aria-busy='true']::after {
    animation: none;
    width: 100%;
  }
}

.nbmem-Notice {
  border-bottom: var(--jp-border-width) solid var(--jp-border-color2);
  border-left: 3px solid var(--jp-warn-color1);
  padding: 8px 12px 8px 9px;
}

.nbmem-PastLine {
  border-top: var(--jp-border-width) solid var(--jp-border-color2);
  color: var(--jp-ui-font-color2);
}

.nbmem-SidePanel > .nbmem-Docked,
.nbmem-SidePanel > .nbmem-Copy {
  flex: none;
  padding: 8px 12px;
}

.nbmem-SidePanel > .nbmem-Copy {
  padding-top: 0;
}

/* Wider than a sidebar: it scrolls, so that nothing of it is cut. */
.nbmem-Copy > .lm-Widget {
  font-size: var(--jp-ui-font-size0);
  overflow-x: auto;
  padding: 0;
}

.nbmem-Copy .jp-RenderedHTMLCommon table {
  font-size: var(--jp-ui-font-size0);
}

.nbmem-Copy .jp-RenderedHTMLCommon td,
.nbmem-Copy .jp-RenderedHTMLCommon th {
  padding: 2px 4px;
}

.nbmem-Docked > .jupyter-widgets,
.nbmem-Docked .jupyter-widgets-view {
  max-width: 100%;
}

/* The strip above says it, with the age of the figures, and the header has the same button. */
.nbmem-Docked .nbmem-live,
.nbmem-Docked .nbmem-again {
  display: none;
}

.nbmem-SidePanel .lm-mod-hidden,
.nbmem-SidePanel [hidden] {
  display: none !important;
}
`,""]),o.d(n,{},{A:i})},24(e){e.exports=function(e){var n=[];return n.toString=function(){return this.map(function(n){var o="",t=void 0!==n[5];return n[4]&&(o+="@supports (".concat(n[4],") {")),n[2]&&(o+="@media ".concat(n[2]," {")),t&&(o+="@layer".concat(n[5].length>0?" ".concat(n[5]):""," {")),o+=e(n),t&&(o+="}"),n[2]&&(o+="}"),n[4]&&(o+="}"),o}).join("")},n.i=function(e,o,t,r,a){"string"==typeof e&&(e=[[null,e,void 0]]);var i={};if(t)for(var d=0;d<this.length;d++){var s=this[d][0];null!=s&&(i[s]=!0)}for(var l=0;l<e.length;l++){var m=[].concat(e[l]);t&&i[m[0]]||(void 0!==a&&(void 0===m[5]||(m[1]="@layer".concat(m[5].length>0?" ".concat(m[5]):""," {").concat(m[1],"}")),m[5]=a),o&&(m[2]&&(m[1]="@media ".concat(m[2]," {").concat(m[1],"}")),m[2]=o),r&&(m[4]?(m[1]="@supports (".concat(m[4],") {").concat(m[1],"}"),m[4]=r):m[4]="".concat(r)),n.push(m))}},n}},23(e){e.exports=function(e){return e[1]}},16(e){var n=[];function o(e){for(var o=-1,t=0;t<n.length;t++)if(n[t].identifier===e){o=t;break}return o}function t(e,t){for(var r={},a=[],i=0;i<e.length;i++){var d=e[i],s=t.base?d[0]+t.base:d[0],l=r[s]||0,m="".concat(s," ").concat(l);r[s]=l+1;var p=o(m),c={css:d[1],media:d[2],sourceMap:d[3],supports:d[4],layer:d[5]};if(-1!==p)n[p].references++,n[p].updater(c);else{var b=function(e,n){var o=n.domAPI(n);return o.update(e),function(n){n?(n.css!==e.css||n.media!==e.media||n.sourceMap!==e.sourceMap||n.supports!==e.supports||n.layer!==e.layer)&&o.update(e=n):o.remove()}}(c,t);t.byIndex=i,n.splice(i,0,{identifier:m,updater:b,references:1})}a.push(m)}return a}e.exports=function(e,r){var a=t(e=e||[],r=r||{});return function(e){e=e||[];for(var i=0;i<a.length;i++){var d=o(a[i]);n[d].references--}for(var s=t(e,r),l=0;l<a.length;l++){var m=o(a[l]);0===n[m].references&&(n[m].updater(),n.splice(m,1))}a=s}}},18(e){var n={};e.exports=function(e,o){var t=function(e){if(void 0===n[e]){var o=document.querySelector(e);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(e){o=null}n[e]=o}return n[e]}(e);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},20(e){e.exports=function(e){var n=document.createElement("style");return e.setAttributes(n,e.attributes),e.insert(n,e.options),n}},19(e,n,o){e.exports=function(e){var n=o.nc;n&&e.setAttribute("nonce",n)}},17(e){e.exports=function(e){if("u"<typeof document)return{update:function(){},remove:function(){}};var n=e.insertStyleElement(e);return{update:function(o){var t,r,a;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(r=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,r&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(a=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),e.styleTagTransform(t,n,e.options)},remove:function(){var e;null===(e=n).parentNode||e.parentNode.removeChild(e)}}}},21(e){e.exports=function(e,n){if(n.styleSheet)n.styleSheet.cssText=e;else{for(;n.firstChild;)n.removeChild(n.firstChild);n.appendChild(document.createTextNode(e))}}},15(e,n,o){var t=o(16),r=o.n(t),a=o(17),i=o.n(a),d=o(18),s=o.n(d),l=o(19),m=o.n(l),p=o(20),c=o.n(p),b=o(21),u=o.n(b),h=o(22),f={};f.styleTagTransform=u(),f.setAttributes=m(),f.insert=s().bind(null,"head"),f.domAPI=i(),f.insertStyleElement=c(),r()(h.A,f),h.A&&h.A.locals&&h.A.locals}}]);